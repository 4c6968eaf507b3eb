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
from equitangents.audit.contract.haar import O3, SO2, SO3, rotation_angle
from equitangents.audit.contract.symmetry import Finite
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import Task
from equitangents.audit.report.sections import Estimate, IrrepSection, IrrepShare
from equitangents.statistics import no_interval

_LARGEST_ORDER = 200
_DEGREES = 5  # l = 0 .. 4


def irreps(task: Task, orbits: Orbits) -> IrrepSection | str:
    """The decomposition, or why there is none."""
    symmetry = task.contract.symmetry
    phi = orbits.signals
    if isinstance(symmetry, Finite):
        if not task.complete:
            return f"{symmetry.name} was sampled; the decomposition needs every element"
        if symmetry.group.order > _LARGEST_ORDER:
            return f"{symmetry.name} has {symmetry.group.order} elements; at most {_LARGEST_ORDER} are decomposed"
        return _finite(task, symmetry, phi)
    if isinstance(symmetry, SO2):
        return _plane(task, phi[1:])
    if isinstance(symmetry, SO3 | O3) and len(task.elements) >= 8:
        return _space(task, phi, isinstance(symmetry, O3))
    return f"there is none for {symmetry.name} from {len(task.elements)} elements"


def _finite(task: Task, symmetry: Finite, phi: Float[np.ndarray, "G K D"]) -> IrrepSection:
    group = symmetry.group
    order = [group.identity, *task.elements]
    table = group.compose(group.inverses[order][:, None], np.array(order))  # g⁻¹h
    centred = phi - phi[0]  # changes the trivial part alone, and keeps rounding relative to the violation
    gram = np.einsum("gkd,hkd->kgh", centred, centred, optimize=True)
    powers, names, dimensions = [], [], []
    for i, irrep in enumerate(group.irreps("real")):
        kernel = irrep.multiplicity * np.real(irrep.character)[table] / len(order) ** 2
        powers.append(np.maximum(np.einsum("gh,kgh->k", kernel, gram), 0.0))
        names.append(_name(symmetry, i, irrep))
        dimensions.append(irrep.dimension)
    total = float(np.mean(phi**2) * phi.shape[2])
    return _section(task, "all elements, exactly", names[1:], dimensions[1:], np.array(powers[1:]), total)


def _plane(task: Task, phi: Float[np.ndarray, "E K D"]) -> IrrepSection:
    E = len(phi)
    power = (np.abs(np.fft.fft(phi - phi[0], axis=0) / E) ** 2).sum(axis=2)
    count = (E - 1) // 2
    both = np.array([power[m] + power[E - m] for m in range(1, count + 1)])
    names = [f"frequency {m}" for m in range(1, count + 1)]
    total = float(np.mean(phi**2) * phi.shape[2])
    return _section(task, f"{E} equidistant angles", names, [2] * count, both, total)


def _space(task: Task, phi: Float[np.ndarray, "E1 K D"], reflections: bool) -> IrrepSection:
    """An unbiased estimate over pairs of different elements, with a jackknife over elements."""
    psi = phi[1:] - phi[0]
    g = np.array(task.elements)
    signs = np.round(np.linalg.det(g))
    proper = g * signs[:, None, None]
    angles = np.radians([[rotation_angle(a.T @ b) or 0.0 for b in proper] for a in proper])
    gram = np.einsum("akd,bkd->ab", psi, psi, optimize=True) / psi.shape[1]
    parities = (1.0, signs[:, None] * signs) if reflections else (1.0,)
    names, dimensions, kernels = [], [], []
    for l in range(_DEGREES):
        for p, parity in enumerate(parities):
            names.append(f"l = {l}" + (("", ", odd under inversion")[p] if reflections else ""))
            dimensions.append(2 * l + 1)
            kernels.append((2 * l + 1) * _character(l, angles) * parity)
    E = len(g)
    estimates = np.array([_pairs(k * gram, np.ones(E, bool)) for k in kernels])
    left_out = np.array([[_pairs(k * gram, np.arange(E) != a) for a in range(E)] for k in kernels])
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
    how: dict[str, Any] = {
        "level": task.confidence,
        "resamples": task.resamples,
        "seed": task.seed,
        "bounds": (0.0, 1.0),
    }
    return statistics.bootstrap(powers.T, of, **how)


def _name(symmetry: Finite, i: int, irrep: object) -> str:
    """ "frequency k" of cyclic groups, else a number."""
    if symmetry.group.name.startswith("C") and symmetry.group.order > 1 and i:
        turn = irrep.character[1] / irrep.dimension  # type: ignore[attr-defined]
        return f"frequency {round(symmetry.group.order * np.arccos(np.clip(turn, -1, 1)) / (2 * np.pi))}"
    return "trivial" if i == 0 else f"irrep {i} of dimension {irrep.dimension}"  # type: ignore[attr-defined]


def _character(l: int, angle: np.ndarray) -> np.ndarray:
    """χ_l of SO(3): 1 + 2 Σ_m cos mω."""
    return 1 + 2 * sum((np.cos(m * angle) for m in range(1, l + 1)), np.zeros_like(angle))


def _pairs(table: np.ndarray, used: np.ndarray) -> float:
    """The mean over ordered pairs of different elements."""
    part = table[np.ix_(used, used)]
    n = len(part)
    return float((part.sum() - np.trace(part)) / (n * (n - 1)))
