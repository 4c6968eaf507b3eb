"""Which irreducible representations of the orbit signal g ↦ φ(g) = ρ(g)⁻¹f(ρ(g)x) carry the violation.

φ is constant for an equivariant f: all of its power ⟨|φ|²⟩ lies in the trivial irrep. The power in irrep r is
d_r ∬ χ_r(g⁻¹h) φ(g)·φ(h) dg dh, by Schur's orthogonality.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents import statistics
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import Task
from equitangents.audit.report.sections import Estimate, IrrepSection, IrrepShare
from equitangents.groups import Group
from equitangents.groups.irreps import Irrep
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.symmetry_group import CompactGroup
from equitangents.statistics import no_interval

_LARGEST_ORDER = 200
_DEGREES = 5  # l = 0 .. 4
_LEAST_ANGLES = 3  # that tell a frequency
_LEAST = 8  # elements, from which a decomposition is estimated


def irreps(task: Task, orbits: Orbits) -> IrrepSection | str:
    """The decomposition, or why there is none."""
    group, phi = task.contract.group, orbits.signals
    if isinstance(group, Group):
        if not task.complete:
            return f"{group.name} was sampled; the decomposition needs every element"
        if group.order > _LARGEST_ORDER:
            return f"{group.name} has {group.order} elements; at most {_LARGEST_ORDER} are decomposed"
        return _finite(task, group, phi)
    if not isinstance(group, CompactGroup):
        return f"there is none for {group.name} from {len(task.elements)} elements"
    if not group.draws_are_independent and len(task.elements) >= _LEAST_ANGLES:
        return _equidistant(task, group, phi[1:])
    if group.draws_are_independent and len(task.elements) >= _LEAST:
        return _independent(task, group, phi)
    return f"there is none for {group.name} from {len(task.elements)} elements"


def _finite(task: Task, group: Group, phi: Float[np.ndarray, "G K D"]) -> IrrepSection:
    kernels = power_kernels(group, [group.identity, *task.elements], 0)
    centred = phi - phi[0]  # changes the trivial part alone, and keeps rounding relative to the violation
    gram = np.einsum("gkd,hkd->kgh", centred, centred, optimize=True)
    names = list(kernels)
    powers = [np.maximum(np.einsum("gh,kgh->k", k / k.size, gram), 0.0) for k in kernels.values()]
    dimensions = [irrep.dimension for irrep in group.irreps("real")]
    total = float(np.mean(phi**2) * phi.shape[2])
    return _section(task, "all elements, exactly", names[1:], dimensions[1:], np.array(powers[1:]), total)


def _equidistant(task: Task, group: CompactGroup, phi: Float[np.ndarray, "E K D"]) -> IrrepSection:
    """By the Fourier transform over equidistant angles."""
    E = len(phi)
    power = (np.abs(np.fft.fft(phi - phi[0], axis=0) / E) ** 2).sum(axis=2)
    irreps = group.irreps((E - 1) // 2 + 1)[1:]
    both = np.array([power[m] + power[E - m] for m in range(1, len(irreps) + 1)])
    names, dimensions = [irrep.name for irrep in irreps], [irrep.dimension for irrep in irreps]
    total = float(np.mean(phi**2) * phi.shape[2])
    return _section(task, f"{E} equidistant angles", names, dimensions, both, total)


def _independent(task: Task, group: CompactGroup, phi: Float[np.ndarray, "E1 K D"]) -> IrrepSection:
    """An unbiased estimate over pairs of different elements, with a jackknife over elements."""
    psi = phi[1:] - phi[0]
    gram = np.einsum("akd,bkd->ab", psi, psi, optimize=True) / psi.shape[1]
    names, dimensions = zip(*((irrep.name, irrep.dimension) for irrep in group.irreps(_DEGREES)), strict=True)
    kernels, E = list(power_kernels(group, task.elements, _DEGREES).values()), len(gram)
    estimates = np.array([pairs(k * gram, np.ones(E, bool)) for k in kernels])
    left_out = np.array([[pairs(k * gram, np.arange(E) != a) for a in range(E)] for k in kernels])
    power = np.array([np.trace(gram) / E] + [(np.trace(gram) - gram[a, a]) / (E - 1) for a in range(E)])
    violation = np.maximum(power - np.array([estimates[0], *left_out[0]]), 1e-300)
    width = float(scipy.special.stdtrit(E - 1, (1 + task.confidence) / 2))
    shares = []
    for name, d, value, jack in zip(names[1:], dimensions[1:], estimates[1:], left_out[1:], strict=True):
        share, resampled = value / violation[0], jack / violation[1:]
        error = width * np.sqrt((E - 1) / E * ((resampled - resampled.mean()) ** 2).sum())
        clip = lambda v: float(np.clip(v, 0.0, 1.0))
        shares.append(IrrepShare(name, d, Estimate(clip(share), clip(share - error), clip(share + error))))
    total = float(np.mean(phi**2) * phi.shape[2])
    part = min(float(violation[0]) / total, 1.0) if total else 0.0
    return IrrepSection(f"{E} random elements, unbiased over pairs", part, shares)


def _section(
    task: Task, method: str, names: list[str], dimensions: list[int], powers: np.ndarray, total: float
) -> IrrepSection:
    """Shares with intervals over inputs; powers (irreps, K)."""
    means = powers.mean(axis=1)
    violation, tiny = float(means.sum()), 1e-300
    shares = []
    for i, (name, dimension) in enumerate(zip(names, dimensions, strict=True)):
        of = lambda means, i=i: means[:, i] / np.maximum(means.sum(axis=1), tiny)
        share = _share(task, powers, of) if powers.shape[1] > 1 else no_interval(float(means[i] / max(violation, tiny)))
        shares.append(IrrepShare(name, dimension, Estimate(share.value, *share.interval)))
    return IrrepSection(method, violation / max(total, tiny), shares)


def _share(task: Task, powers: np.ndarray, of: Any) -> statistics.Estimate:
    bounds = (0.0, 1.0)
    return statistics.bootstrap(
        powers.T, of, confidence=task.confidence, resamples=task.resamples, seed=task.seed, bounds=bounds
    )


def _name(group: Group, i: int, irrep: Irrep) -> str:
    """ "frequency k" of cyclic groups, else a number."""
    if group.name.startswith("C") and group.order > 1 and i:
        turn = irrep.character[1] / irrep.dimension
        return f"frequency {round(group.order * np.arccos(np.clip(turn, -1, 1)) / (2 * np.pi))}"
    return "trivial" if i == 0 else f"irrep {i} of dimension {irrep.dimension}"


def power_kernels(group: Any, elements: list[Any], degrees: int) -> dict[str, Float[np.ndarray, "E E"]]:
    """d_r χ_r(g⁻¹h) of every irrep by name, for all elements of a finite group or some of a compact one.

    Times a Gram matrix, its mean over all pairs of a finite group is the power in the irrep, and over pairs of
    different random elements an unbiased estimate of it.
    """
    if isinstance(group, Group):
        table = group.compose(group.inverses[elements][:, None], np.array(elements))
        return {
            _name(group, i, irrep): irrep.multiplicity * np.real(irrep.character)[table]
            for i, irrep in enumerate(group.irreps("real"))
        }
    if isinstance(group, RotationGroup):
        R = np.array(elements)
        between = np.einsum("aji,bjk->abik", R, R)
    else:
        between = np.array([[group.compose(group.inverse(a), b) for b in elements] for a in elements])
    return {irrep.name: irrep.dimension * irrep.character(between) for irrep in group.irreps(degrees)}


def pairs(table: np.ndarray, used: np.ndarray) -> float:
    """The mean over ordered pairs of different elements."""
    part = table[np.ix_(used, used)]
    n = len(part)
    return float((part.sum() - np.trace(part)) / (n * (n - 1)))
