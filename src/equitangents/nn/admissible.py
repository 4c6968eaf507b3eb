"""Which networks have an initial law that a group preserves, so that augmented ensembles are equivariant at any width.

A linear layer with independent Gaussian weights maps signals by Σ_s W_s ⊗ R_s, with one slot s per shared weight. The
group permutes input positions by Π_in and output positions by Π_out. The layer's law is invariant exactly if its
covariance T(X) = Σ_s R_s X R_sᵀ is equivariant: T(Π_in X Π_inᵀ) = Π_out T(X) Π_outᵀ for every X. Gradient descent
keeps the law invariant at every width and time, so that the mean over members is equivariant (arXiv 2410.01452). The
kernel is then invariant, too, Θ(ρ(g)x, ρ(g)x') = Θ(x, x'). If only the kernel is invariant, the mean is equivariant
in the infinite-width limit. Both need training that does not single out directions of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import AnyAction, Network
from equitangents.actions import Action, as_action
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, NetworkError
from equitangents.groups import Group
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.invariance import is_invariant
from equitangents.kernels.operations import Box, Decouple, Flattening, IndexTable, Pool, WindowPool
from equitangents.kernels.structured import BlockSums, Times
from equitangents.nn.layer import Layer, Signal
from equitangents.nn.nonlinearities import Identity
from equitangents.nn.sequential import Sequential
from equitangents.validation import check_shape

_TOLERANCE = 1e-9  # relative, of sums in float64
_ELEMENTS = 64  # that many are tried at most of groups without generators


@dataclass(frozen=True)
class Admissible:
    """Whether the mean of augmented ensembles of a network is exactly equivariant at any width and time.

    admissible: the verdict. layer: the first layer whose law the action does not preserve, as `layers[i]: ...`, or
    None. reason: why, and for which elements; of groups without generators, only sampled elements are checked.
    """

    admissible: bool
    layer: str | None
    reason: str

    def __bool__(self) -> bool:
        return self.admissible


def is_admissible(net: Sequential, action: AnyAction, input_shape: tuple[int, ...]) -> Admissible:
    """Whether `action` on the inputs preserves the initial law of `net`, for inputs of shape (*positions, channels).

    ```python
    net = nn.Sequential(nn.Conv(16, 3), nn.Relu(), nn.Flatten(), nn.Dense(10))
    nn.is_admissible(net, "C4", (8, 8, 1))          # admissible: 3 × 3 windows are turned into 3 × 3 windows
    ```
    Then an ensemble trained on full orbits by gradient descent, with any invariant loss, has an equivariant mean at
    every width; any orthogonal representation may act on the outputs. (Adam treats weights one by one; with it this
    holds if elements permute positions, not if they mix channels.) Otherwise the mean is at best equivariant in the
    limit of infinite width, if the kernel is invariant; it is not if the group does not map windows to windows. Raises
    NetworkError for layers without windows: attention, graphs, branches.
    """
    if not isinstance(net, Sequential):
        raise InvalidTypeError("net", type(net), Sequential.__name__, verb="is of type")
    found = by_layers(net, action, check_shape("input_shape", input_shape))
    if found is None:
        remedy = "metrics.equivariance_error measures others"
        raise NetworkError("net", net, "layers with windows, for which it is decided", remedy)
    return found


def by_layers(net: Sequential, action: AnyAction, input_shape: tuple[int, ...]) -> Admissible | None:
    """`is_admissible`, or None if a layer is not a linear map with windows."""
    action = as_action("action", action, (1, *input_shape))
    if not hasattr(action, "group"):
        raise InvalidTypeError("action", action, "an action of a group, or its name")
    order, generators = (getattr(action.group, name, None) for name in ("order", "generators"))
    if order is None:
        wanted = "an action of a finite group or of a quadrature of one"
        raise InvalidArgumentError("action", action.group, wanted, verb="is of")
    if not getattr(action, "exact", True):
        return Admissible(False, None, f"{action} resamples its inputs, so that it is not orthogonal on them")
    # what generators do to a law all of their products do
    some = np.linspace(0, order - 1, min(order, _ELEMENTS)).astype(int) if generators is None else generators
    elements, rng = list(dict.fromkeys(map(int, some))), np.random.default_rng(0)
    signals = net.signals(input_shape)
    moves: list[np.ndarray] | None = None  # of positions, one permutation an element; None: as the action says
    pending: list[int] = []
    for i, layer in enumerate(net.layers):
        pointwise = bool(layer.follows_moves)
        if layer.inner or layer.joins or layer.draws_noise or layer.steers or layer.is_last:
            return None
        if layer.follows_moves is False:
            return None
        if pointwise and moves is None and not isinstance(layer, Identity):
            return None  # a function of the inputs, whose channels the action may mix
        if not pointwise:
            pending.append(i)
        if pending and (pointwise or layer.has_weights or i + 1 == len(net.layers)):
            law = _law([net.layers[j] for j in pending], [signals[j] for j in pending])
            found = _moved(law, signals[pending[0]], signals[pending[-1] + 1], action, elements, moves, rng)
            if isinstance(found, str):
                return Admissible(False, f"layers[{pending[-1]}]: {net.layers[pending[-1]]!r}", found)
            moves, pending = found, []
    which = f"{len(elements)} elements of {action.group.name}" if generators is None else "all elements"
    return Admissible(True, None, f"every layer's windows are carried to one another by {which}")


def _law(layers: Sequence[Layer], signals: Sequence[Signal]) -> Callable[[np.ndarray], np.ndarray]:
    """T(X) = Σ_s R_s X R_sᵀ + B of one layer with weights and the pools around it; `signals[i]` is layer i's input.

    R, (slots, P_out, P_in), has one slot per weight that channels share. NetworkError for other operations.
    """
    count = signals[0].positions.count
    slots, bias = np.eye(count)[None], np.zeros((count, count))
    for layer, signal in zip(layers, signals, strict=True):
        for op in layer.lower(signal):
            if op.affine is not None:
                slots, bias = slots * op.W_var**0.5, op.W_var * bias + op.b_var
            elif isinstance(op, Decouple):  # weights of each position by themselves
                each = np.eye(len(bias))
                slots = (each[:, None, :, None] * slots).reshape((-1, *slots.shape[1:]))
                bias = bias * each
            elif (rule := _MAPS.get(type(op))) is not None:
                maps = rule(op, len(bias))
                slots = (maps[:, None] @ slots).reshape((-1, maps.shape[1], count))
                bias = (maps @ bias @ maps.mT).sum(axis=0)
            else:
                wanted = "dense, convolutional, locally connected and group-convolutional layers, pools, nonlinearities"
                raise NetworkError("layer", layer, wanted)
    return lambda field: bias + sum(r @ field @ r.T for r in slots[slots.any((1, 2))])


def _windows(index: np.ndarray, weights: np.ndarray, positions: int) -> np.ndarray:
    """√w_s at the position that tap s of each window reads, (slots, windows, positions); −1 reads nothing."""
    return np.stack([w**0.5 * (i[:, None] == np.arange(positions)) for i, w in zip(index.T, weights, strict=True)])


def _members(op: Any) -> np.ndarray:
    return np.asarray(op.labels.array == np.arange(op.blocks)[:, None], float)


_MAPS: dict[type, Callable[[Any, int], np.ndarray]] = {  # R of an operation on so many positions, without weights
    Box: lambda op, n: _windows(op.table, np.full(op.table.shape[1], 1 / op.table.shape[1]), n),
    IndexTable: lambda op, n: _windows(op.index.array, op.weights.array, n),
    Pool: lambda op, n: (_members(op) / _members(op).sum(axis=1, keepdims=True))[None],
    BlockSums: lambda op, n: _members(op)[None],
    WindowPool: lambda op, n: window_averages(op.box)[None],
    Flattening: lambda op, n: np.eye(n)[:, None] / n**0.5,
    Times: lambda op, n: op.factor * np.eye(n)[None],
}


def _moved(
    law: Callable[[np.ndarray], np.ndarray],
    before: Signal,
    after: Signal,
    action: AnyAction,
    elements: list[int],
    moves: list[np.ndarray] | None,
    rng: np.random.Generator,
) -> list[np.ndarray] | str:
    """The permutation of the block's outputs by each element, or the reason why there is none."""
    if moves is None:
        u, v = (rng.standard_normal((1, *before.array_shape)) for _ in range(2))
        inner = lambda a, b: np.einsum(
            "pc,qc->pq", *(np.asarray(z, float).reshape((before.positions.count, -1)) for z in (a, b))
        )
        start = inner(u, v)
        fields = [inner(action(g, u), action(g, v)) for g in elements]  # X after each element
    else:
        start = rng.standard_normal((before.positions.count,) * 2)
        fields = [_permuted(start, m) for m in moves]
    own = law(start)
    found: list[np.ndarray] = []
    for i, (g, field) in enumerate(zip(elements, fields, strict=True)):
        turned = law(field)
        scale = max(float(np.max(np.abs(own))), float(np.max(np.abs(turned))), np.finfo(float).tiny)
        least = np.inf
        for candidate in _candidates(own, turned, after, None if moves is None else moves[i]):
            error = float(np.max(np.abs(_permuted(own, candidate) - turned))) / scale
            least = min(least, error)
            if error <= _TOLERANCE:
                found.append(candidate)
                break
        else:
            return (
                f"element {g} of {action.group.name} does not carry its windows to one another: the covariance of what "
                f"it makes changes by {least:.2g} of its largest entry"
            )
    return found


def _permuted(field: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The field X(m⁻¹p, m⁻¹q) after a permutation m of positions."""
    back = np.argsort(moves)
    return field[np.ix_(back, back)]


def _candidates(own: np.ndarray, turned: np.ndarray, after: Signal, before: np.ndarray | None) -> Iterator[np.ndarray]:
    """Permutations of outputs that an element may induce: output o goes to m[o]."""
    count = len(own)
    if before is not None and len(before) == count:
        yield before
    yield np.arange(count)
    order, moved = np.argsort(np.diag(own), kind="stable"), np.argsort(np.diag(turned), kind="stable")
    matched = np.empty(count, int)
    matched[order] = moved
    yield matched
    if isinstance(group := getattr(after.positions, "group", None), Group):
        yield from (np.asarray(row) for row in np.asarray(group.table))


_LINEAR = ("gd", "sgd", "momentum")  # optimizers that commute with every orthogonal change of the weights


@dataclass(frozen=True)
class MeanLaw:
    """at_width: whether the mean of infinitely many members is equivariant at every width; None: unknown.
    in_limit: whether it is known to be equivariant at infinite width. reason: why not at every width, or None.
    """

    at_width: bool | None
    in_limit: bool
    reason: str | None = None

    @property
    def equivariant(self) -> bool:
        """`at_width` if layers determine it, otherwise `in_limit`."""
        return self.in_limit if self.at_width is None else self.at_width


def mean_law(net: Network, action: Action, x: np.ndarray, optimizer: object) -> MeanLaw | None:
    """`MeanLaw` of ensembles trained on all copies of their data under `action`.

    `x` are inputs (n, …); only their shape is used. None if nothing is known without sampling networks: for resampled
    inputs, networks without a kernel, kernels of unknown symmetry, and optimizers that treat weights one by one if
    elements mix channels.
    """
    if not (callable(getattr(net, "kernel", None)) and commutes(optimizer, action)):
        return None
    try:
        found = by_layers(net, action, x.shape[1:]) if isinstance(net, Sequential) else None
        if found is not None and found.admissible:
            return MeanLaw(True, True)
        in_limit = is_invariant(net, action, x)
    except (NetworkError, MemoryLimitError):  # a network without a kernel
        return None
    if found is None:
        return MeanLaw(None, True) if in_limit else None
    return MeanLaw(False, in_limit, f"{found.layer}: {found.reason}")


def commutes(optimizer: object, action: Action) -> bool:
    """Whether steps of the optimizer commute with the action on weights."""
    linear = isinstance(optimizer, str) and optimizer in _LINEAR
    return bool(action.exact and (linear or action.permutes_positions))
