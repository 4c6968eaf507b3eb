"""Which irreducible representations the features of every layer hold.

The feature φ(g) = h(ρ(g)x) of a layer is a function on the group. Its power ⟨|φ|²⟩ is the sum over irreps r of
d_r ∬ χ_r(g⁻¹h) φ(g)·φ(h) dg dh, by Schur's orthogonality: what no element changes is in the trivial irrep; vectors are
in l = 1. Integrals are sums over a finite group, and over the nodes of a quadrature of SO(3) or O(3).

The question about layers is that of arXiv:2603.24638: unconstrained models by layer and by irrep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents._aliases import AnyAction
from equitangents._types import AnyModel, Tree
from equitangents.audit.adapters import as_model
from equitangents.audit.contract.contract import make_contract
from equitangents.audit.contract.named import structured
from equitangents.audit.contract.trees import as_inputs, to_numpy
from equitangents.errors import InvalidArgumentError, NetworkError, NotFiniteError
from equitangents.groups import Group, o3, so3
from equitangents.groups.irreps import Irrep
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.symmetry_group import CompactGroup
from equitangents.validation import check_whole

_LARGEST_ORDER = 200


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
            "action", group, "SO(3), O(3) or a finite group of at most 1,000 elements", verb="moves by"
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
                raise NetworkError("f", model.name, "a module of PyTorch or JAX, or a network, which show their layers")
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
        raise NotFiniteError(name, "NaN or infinite features", "finite ones", verb="gives")
    gram = phi @ phi.T / phi.shape[1]
    total = float(weights @ np.diag(gram))
    powers = {irrep: float((k * gram).sum()) for irrep, k in kernels.items()}
    if np.ptp(weights):  # a finite group has no others
        powers[HIGHER] = total - sum(powers.values())
    with np.errstate(invalid="ignore"):
        return LayerIrreps(name, kind, {n: float(np.divide(p, total)) for n, p in powers.items()}, total)
