"""Which irreducible representations carry the violation, and which the features of every layer hold.

A signal g ↦ φ(g) = ρ(g)⁻¹f(ρ(g)x), or the feature h(ρ(g)x) of a layer, is a function on the group. Its power ⟨|φ|²⟩ is
the sum over irreps r of  d_r ∬ χ_r(g⁻¹h) φ(g)·φ(h) dg dh, by Schur's orthogonality. φ is constant for an equivariant f:
all of its power lies in the trivial irrep, and the rest is its error. Of a layer what no element changes is in the
trivial irrep; vectors are in l = 1. Integrals are sums over a finite group, and over the nodes of a quadrature of SO(3)
or O(3).

The question about layers is that of arXiv:2603.24638: unconstrained models by layer and by irrep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents import statistics
from equitangents._aliases import AnyAction
from equitangents._types import AnyModel, Tree
from equitangents.audit.adapters import as_model
from equitangents.audit.contract.contract import make_contract
from equitangents.audit.contract.named import structured
from equitangents.audit.contract.trees import as_inputs, to_numpy
from equitangents.audit.measure.measured import Measured
from equitangents.audit.measure.task import Task
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.part_sections import IrrepSection, IrrepShare
from equitangents.errors import InvalidArgumentError, NetworkError, NotFiniteError
from equitangents.groups import Group, o3, so3
from equitangents.groups.irreps import Irrep
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.symmetry_group import CompactGroup
from equitangents.statistics import no_interval
from equitangents.validation import check_whole

_LARGEST_ORDER = 200
_DEGREES = 5  # l = 0 .. 4
_LEAST_ANGLES = 3  # that tell a frequency
_LEAST = 8  # elements, from which a decomposition is estimated


def irreps(m: Measured) -> IrrepSection | str:
    """The decomposition, or why there is none."""
    task, group, phi = m.task, m.task.contract.group, m.orbits.signals
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
    width = float(scipy.special.stdtrit(E - 1, (1 + task.bootstrap.confidence) / 2))
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
    return statistics.bootstrap(powers.T, of, **vars(task.bootstrap), bounds=(0.0, 1.0))


def _name(group: Group, i: int, irrep: Irrep) -> str:
    """ "frequency k" of cyclic groups, else a number."""
    if group.name.startswith("C") and group.order > 1 and i:
        turn = irrep.character[1] / irrep.dimension
        return f"frequency {round(group.order * np.arccos(np.clip(turn, -1, 1)) / (2 * np.pi))}"
    return "trivial" if i == 0 else f"irrep {i} of dimension {irrep.dimension}"


def power_kernels(
    group: Group | CompactGroup, elements: list[Any], degrees: int
) -> dict[str, Float[np.ndarray, "E E"]]:
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


HIGHER = "higher"
_INPUTS = 2048  # at a time


@dataclass(frozen=True)
class LayerIrreps:
    """Shares of irreps in the features of one layer, which sum to 1."""

    name: str
    kind: str
    shares: dict[str, float]
    """By the irrep's name, "l = 1"; "higher" is what none of them holds. All NaN for a layer of zeros."""
    power: float
    """Mean square of the features over inputs, elements and entries."""


@dataclass(frozen=True)
class IrrepsByLayer:
    """What every layer holds, in order, and the output last."""

    layers: list[LayerIrreps]
    error: dict[str, float]
    """Shares of the non-trivial irreps in the power of the output, turned back: the relative squared error by irrep."""

    @property
    def relative_error(self) -> float:
        """The square root of their sum: √ of the part of the output's power that is not equivariant."""
        return float(np.sqrt(np.maximum(sum(self.error.values()), 0.0)))

    def table(self) -> str:
        """A line a layer, in per cent."""
        names = list(self.layers[0].shares)
        head = " ".join([f"{'layer':24s}", *(f"{name:>10s}" for name in names)])
        rows = [" ".join([f"{r.name[:24]:24s}", *(f"{100 * v:10.2f}" for v in r.shares.values())]) for r in self.layers]
        return "\n".join([head, *rows])


def irreps_by_layer(
    f: AnyModel,
    action: AnyAction,
    x: Tree,
    *,
    inputs: Tree = None,
    turned_back: Callable[[Any, np.ndarray], np.ndarray] | None = None,
    degrees: int = 5,
    layout: Literal["channels_last", "channels_first"] | None = None,
) -> IrrepsByLayer:
    """The share of every irrep in each layer's features, of a model that shows its layers (PyTorch, JAX, networks).

    Args:
        f: what `audit` takes; layers are seen by hooks.
        action: a group by name or an action, as for `audit`.
        x: inputs, (N, …).
        inputs: what they are where the action is a name: "vectors" for points (N, n, 3).
        turned_back: ρ′(g)⁻¹ on outputs: (g, (N, …)) to (N, …); None: outputs should not change.
        degrees: irreps of SO(3) and O(3) that are told apart, l = 0 … degrees − 1; by a quadrature of one degree more,
            (2 degrees + 1)² (degrees + 1) elements. Features far above that degree are counted in lower ones in part.
        layout: of images, as for `audit`.

    Raises:
        InvalidArgumentError: for arguments that cannot be used; NetworkError: a model that shows no layers.
    """
    check_whole("degrees", degrees, 1)
    model = as_model(f)
    x, kinds, _ = structured(x, inputs, False, action if isinstance(action, str) else None)
    batch = as_inputs(x)
    stated = model.stated_shapes(batch.tree(), batch.axes)
    contract = make_contract(action, batch, kinds, layout, None, stated)
    group: Any = contract.group
    if isinstance(group, RotationGroup):
        grid = (o3 if group.reflections else so3)(degrees + 1)
        told, weights = list(grid.nodes), grid.weights
    elif isinstance(group, Group) and group.order <= _LARGEST_ORDER:
        told, weights = list(range(group.order)), np.full(group.order, 1 / group.order)
    else:
        raise InvalidArgumentError(
            f"action moves by {group.name}; expected SO(3), O(3) or a finite group of at most {_LARGEST_ORDER} elements"
        )
    rows: dict[tuple[str, str], list[np.ndarray]] = {}
    last: list[np.ndarray] = []
    chunk = max(1, _INPUTS // batch.n)
    with model.ready():
        for some in (told[k : k + chunk] for k in range(0, len(told), chunk)):
            moved = [contract.move(g, batch.leaves) for g in some]
            x = batch.replaced([np.concatenate(leaf) for leaf in zip(*moved, strict=True)])
            traces = model.trace(x.own_tree())
            if not traces:
                raise NetworkError(f"{model.name} shows no layers; give a module of PyTorch or JAX, or a network")
            for t in traces:
                rows.setdefault((t.name, t.kind), []).append(np.asarray(t.outputs, np.float64))
            last.append(np.asarray(to_numpy(model.run(x.own_tree())), np.float64))
    by_element = lambda parts: np.split(np.concatenate(parts), len(told))
    y = by_element(last)
    outputs = y if turned_back is None else [turned_back(g, one) for g, one in zip(told, y, strict=True)]
    kernels = {name: k * np.outer(weights, weights) for name, k in power_kernels(group, told, degrees).items()}
    layers = [_layer(name, kind, by_element(parts), kernels, weights) for (name, kind), parts in rows.items()]
    layers.append(_layer("output", "output", y, kernels, weights))
    shares = _layer("output", "output", outputs, kernels, weights).shares
    trivial = next(iter(shares))
    return IrrepsByLayer(layers, {name: share for name, share in shares.items() if name != trivial})


def _layer(
    name: str,
    kind: str,
    signals: list[np.ndarray],
    kernels: dict[str, Float[np.ndarray, "E E"]],
    weights: Float[np.ndarray, " E"],
) -> LayerIrreps:
    """Shares of one layer from its features for every element."""
    phi = np.array([s.reshape(-1) for s in signals])
    if not np.isfinite(phi).all():
        raise NotFiniteError(f"layer {name} gives NaN or infinite features")
    gram = phi @ phi.T / phi.shape[1]
    total = float(weights @ np.diag(gram))
    powers = {irrep: float((k * gram).sum()) for irrep, k in kernels.items()}
    if np.ptp(weights):  # a finite group has no others
        powers[HIGHER] = total - sum(powers.values())
    with np.errstate(invalid="ignore"):
        return LayerIrreps(name, kind, {n: float(np.divide(p, total)) for n, p in powers.items()}, total)
