"""Targets that are fields, one value at every position of a network's output: kernels and groups of single points.

Θ((x, p), (x′, p′)) = E[Σ_μ ∂_μ f(x)(p) ∂_μ f(x′)(p′)] is a kernel of points (x, p), a block of the network's kernel
field. N fields on P positions are a data set of N·P points with one value each (for every output channel), so that
training on fields is ordinary regression.

A group acts on points by g (x, p) = (ρ_X(g) x, π_g p), and on targets by (ρ_Y(g) y)(π_g p) = y(p) without a label
action. Kernels may have these symmetries:

invariant    Θ(g z, g z′) = Θ(z, z′): full augmentation is solved at the size of the data
equivariant  Θ(z, g z′) = Θ(z, z′): every member has f(ρ_X(g)x)(π_g p) = f(x)(p), and copies add no information

Equivariant outputs, (N, d), are fields on d places: what covaries is treated alike, whatever it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from equitangents._types import AnyAction, AnyModel, ArrayLike, DataRows, Element, Elements, Targets
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.actions.products import FieldAction
from equitangents.actions.subset import augmenting_elements, whole_action
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError
from equitangents.groups.group import GroupMap
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.inference.augmented import DataOrbits, augment_targets, find_orbits, row_digests
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.invariance import draws_noise
from equitangents.kernels.result import FieldFunction, KernelField, NngpKernels
from equitangents.nn import Sequential
from equitangents.solvers.matrices import KernelMatrix

_ENTRIES = 2**22  # of a block of the field, NNGP and NTK each: 16 MB in float32, which an allocator uses again
_LANDMARKS = 8192  # points from which landmarks are drawn, 256 MB of their kernel in float32
_TILE = 4096  # points: whole signals, so that no field is computed for a part of it, and enough pairs for all cores


AnyKernels = Kernels | NngpKernels
"""Only the NNGP for networks without a tangent kernel."""


@dataclass(frozen=True, eq=False)
class FieldPoints:
    """Points (signals[image], position), in arrays of any shape; sliced, indexed and reshaped like an array.

    signals (n, *positions, C): inputs. image, position: integer arrays of one shape. count: P, the positions of an
    output. As an array it has the shape (*shape of image, *shape of a signal).
    """

    signals: ArrayLike
    image: np.ndarray
    position: np.ndarray
    count: int

    @staticmethod
    def of(signals: ArrayLike, count: int) -> FieldPoints:
        """All positions of all signals, signal by signal, (n·P,)."""
        n = len(signals)
        return FieldPoints(signals, np.repeat(np.arange(n), count), np.tile(np.arange(count), n), count)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array with one signal per point."""
        return (*self.image.shape, *self.signals.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the signals."""
        return np.dtype(self.signals.dtype)

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Any) -> FieldPoints:
        return FieldPoints(self.signals, self.image[index], self.position[index], self.count)

    def reshape(self, *shape: int) -> FieldPoints:
        """The points in another shape, given with the signals' axes last."""
        own = shape[: len(shape) - self.signals.ndim + 1]
        return FieldPoints(self.signals, self.image.reshape(own), self.position.reshape(own), self.count)

    def digests(self) -> list[bytes]:
        """A digest per point, equal for the same position of equal signals (see `row_digests`)."""
        of_signals = row_digests(self.signals)
        return [of_signals[i] + int(p).to_bytes(4, "little") for i, p in zip(self.image, self.position, strict=True)]

    def blocks(self, numbers: int) -> list[slice]:
        """Slices of at most `numbers` points, each of complete signals if points are ordered by signal."""
        step = max(1, numbers // self.count) * self.count if numbers >= self.count else numbers
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), max(1, step))]


class PointAction(Action):
    """The action on points of an action on signals and a table of positions, (|G|, P)."""

    def __init__(self, action: Action, table: np.ndarray) -> None:
        vars(self).update(
            group=action.group, exact=action.exact, name=action.name, action=action, table=np.asarray(table)
        )

    action: Action
    table: np.ndarray

    def __call__(self, g: int, x: FieldPoints) -> FieldPoints:
        """The points g z for points z of any shape."""
        return FieldPoints(self.action(g, np.asarray(x.signals)), x.image, self.table[g][x.position], x.count)

    def orbit(self, x: FieldPoints, elements: Elements = None) -> FieldPoints:
        """All g z along a new first axis."""
        chosen = np.arange(self.group.order) if elements is None else self.check_elements(elements)
        images, at = np.unique(x.image, return_inverse=True)
        signals = self.action.orbit(np.asarray(x.signals)[images], chosen)
        image = np.arange(len(chosen)).reshape(-1, *(1,) * x.image.ndim) * len(images) + at.reshape(x.image.shape)
        moved = signals.reshape(-1, *signals.shape[2:])
        return FieldPoints(moved, image, self.table[chosen][:, x.position], x.count)

    def at_positions(self, values: np.ndarray, elements: int) -> np.ndarray:
        """Entry (g, p) from entry (g, π_g⁻¹ p): axis `elements` is that of g, the next one that of positions."""
        back = np.argsort(self.table, axis=1)
        moved = np.moveaxis(values, (elements, elements + 1), (0, 1))
        moved = moved[np.arange(len(self.table))[:, None], back]
        return np.moveaxis(moved, (0, 1), (elements, elements + 1))

    def data_orbits(self, x: FieldPoints) -> DataOrbits:
        """The orbits of points, computed from the orbits of their signals, without kernels or copies of signals.

        x_j = ρ(g_j) x_o, so that the point (x_j, p) is g_j (x_o, g_j⁻¹ p); points of x_o on one orbit of its stabiliser
        are on one orbit, too.
        """
        of, group = find_orbits(self.action, np.asarray(x.signals)), self.group
        if of.generic:
            everything = np.arange(len(x))
            return DataOrbits(group, everything, everything, np.full(len(x), group.identity), {})
        fixing = [of.stabilisers.get(o, np.array([group.identity])) for o in range(len(of.first))]
        # by a signal's orbit and the smallest position: a number, the representative, what takes (x_o, smallest) to it
        found: dict[tuple[int, int], tuple[int, int, int]] = {}
        orbit, element = np.empty(len(x), int), np.empty(len(x), int)
        for k, (i, p) in enumerate(zip(x.image.tolist(), x.position.tolist(), strict=True)):
            o, g = int(of.orbit[i]), int(of.element[i])
            places = self.table[fixing[o], self.table[group.inverses[g]][p]]
            at = int(places.argmin())
            # fixing[at] takes (x_o, g⁻¹ p) to (x_o, smallest): z_k = g · fixing[at]⁻¹ (x_o, smallest)
            here = group.compose(g, int(group.inverses[fixing[o][at]]))
            orbit[k], _, start = found.setdefault((o, int(places[at])), (len(found), k, here))
            element[k] = group.compose(here, int(group.inverses[start]))
        stabilisers = {}
        for (o, smallest), (number, _, start) in found.items():
            held = fixing[o][self.table[fixing[o], smallest] == smallest]
            if len(held) > 1:  # of the representative itself: start · held · start⁻¹
                mine = group._compose(group._compose(np.full(len(held), start), held), group.inverses[start])
                stabilisers[number] = np.sort(mine)
        return DataOrbits(group, np.array([k for _, k, _ in found.values()]), orbit, element, stabilisers)

    def _check_signals(self, x: DataRows) -> DataRows:
        return x

    def _act(self, g: int, x: DataRows) -> DataRows:
        return self(g, x)

    def _key(self) -> tuple[Any, ...]:
        return (self.action, self.table.tobytes())


def _values(kernels: AnyKernels | KernelField) -> list[np.ndarray]:
    """The NNGP, and the NTK if there is one."""
    names = ("nngp",) if hasattr(kernels, "reason") else ("nngp", "ntk")
    return [np.asarray(getattr(kernels, name)) for name in names]


def _like(kernels: AnyKernels | KernelField, values: list[np.ndarray]) -> AnyKernels:
    """Kernels with these values, without an NTK if `kernels` have none."""
    reason = getattr(kernels, "reason", None)
    return Kernels(values[0], values[1]) if reason is None else NngpKernels(values[0], reason)


def _each(kernels: AnyKernels, change: Callable[[np.ndarray], np.ndarray]) -> AnyKernels:
    return _like(kernels, [change(values) for values in _values(kernels)])


class FieldKernel:
    """A kernel function of points, `kernel(a, b)`, for a network that has `kernel_field`.

    net: a network that ends on positions, or anything with `kernel_field(x1, x2=None)`.
    """

    def __init__(self, net: FieldFunction) -> None:
        self.net = net

    @property
    def draws_noise(self) -> bool:
        """Whether the network's kernel depends on more than its two inputs, as with dropout."""
        return draws_noise(self.net)

    def kernel(self, x1: FieldPoints, x2: FieldPoints | None = None) -> AnyKernels:
        """NNGP and NTK between points, (A, B), from fields of blocks of signals; at half cost if x2 is None."""
        a, b = x1, x1 if x2 is None else x2
        most = max(1, int((_ENTRIES / (a.count * b.count)) ** 0.5))
        rows = list(_by_signals(a, most))
        columns = rows if x2 is None else list(_by_signals(b, most))
        found: list[np.ndarray] = []
        for i, (images, here) in enumerate(rows):
            one = np.asarray(a.signals)[images]
            for others, there in columns[i:] if x2 is None else columns:
                same = x2 is None and images is others
                field = self.net.kernel_field(one, None if same else np.asarray(b.signals)[others])
                values = _values(field)
                found = found or [np.empty((len(a), len(b)), a.dtype) for _ in values]
                for out, each in zip(found, values, strict=True):
                    matrix = each.reshape(each.shape[0] * each.shape[1], -1)
                    part = _selected(_selected(matrix, a, here, 0), b, there, 1)
                    out[np.ix_(here, there)] = part
                    if x2 is None:
                        out[np.ix_(there, here)] = part.T
        return _like(field, found)

    def kernel_diagonal(self, a: FieldPoints) -> AnyKernels:
        """NNGP and NTK of every point with itself, each (A,)."""
        images, of = np.unique(a.image, return_inverse=True)
        field = _same_positions(self.net, np.asarray(a.signals)[images])
        return _each(field, lambda values: values[of, a.position])


def _by_signals(points: FieldPoints, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (some signals, the indices of their points)."""
    order = np.argsort(points.image, kind="stable")
    images, starts = np.unique(points.image[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for begin in range(0, len(images), most):
        end = min(begin + most, len(images)) - 1
        yield images[begin : end + 1], order[starts[begin] : ends[end]]


def _selected(matrix: np.ndarray, points: FieldPoints, chosen: np.ndarray, axis: int) -> np.ndarray:
    image = np.searchsorted(np.unique(points.image[chosen]), points.image[chosen])
    index = image * points.count + points.position[chosen]
    if len(index) == matrix.shape[axis] and (index == np.arange(len(index))).all():
        return matrix
    return matrix.take(index, axis)


def _same_positions(net: FieldFunction, signals: np.ndarray) -> AnyKernels:
    """The field of each signal with itself at equal positions, (n, P)."""
    diagonal = getattr(net, "kernel_field_diagonal", None)
    if callable(diagonal):
        return diagonal(signals, positions="same")
    parts = [net.kernel_field(signals[i : i + 1]) for i in range(len(signals))]
    pick = lambda name: np.stack([np.asarray(getattr(part, name))[0, :, 0].diagonal() for part in parts])
    return Kernels(pick("nngp"), pick("ntk"))


class FieldMatrix(KernelMatrix):
    """Kernel matrix of points, whose entries are computed on each access."""

    def __init__(self, kernel: PointKernel, x: FieldPoints, field: str) -> None:
        side = max(1, _TILE // x.count) * x.count
        super().__init__(cast(KernelFunction, kernel), x, field, tile=side)  # points are indexed as inputs are
        self.label = f"the {field.upper()} of {self.size} outputs ({x.count} positions each)"

    def landmark_rows(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """Points of random signals, at least twice `count` of them, since a field is computed for all its positions."""
        images = np.unique(self.x.image)
        wanted = -(-max(_LANDMARKS, 2 * count) // self.x.count)
        if wanted >= len(images):
            return None
        return np.flatnonzero(np.isin(self.x.image, rng.choice(images, wanted, replace=False)))

    def _inputs_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.x.image[rows])


@dataclass(frozen=True)
class PointAverage:
    """The kernel of points averaged over one argument's orbit, for an action under which it is invariant."""

    base: FieldKernel
    action: PointAction

    def kernel(self, a: FieldPoints, b: FieldPoints | None = None) -> AnyKernels:
        """(1/|G|) Σ_g Θ(a, g b), NNGP and NTK; exactly symmetric if b is None."""
        other = a if b is None else b
        order = self.action.group.order
        terms = (self.base.kernel(a, self.action(g, other)) for g in range(order))
        first = next(terms)
        total = _values(first)
        for k in terms:
            total = [t + values for t, values in zip(total, _values(k), strict=True)]
        means = [t / order for t in total]
        return _like(first, means if b is not None else [(m + m.T) / 2 for m in means])

    def kernel_diagonal(self, a: FieldPoints) -> AnyKernels:
        """The averaged kernel of every point with itself."""
        parts = [self.kernel(a[part]) for part in a.blocks(max(256, a.count))]
        values = zip(*map(_values, parts), strict=True)
        return _like(parts[0], [np.concatenate([np.diagonal(each) for each in same]) for same in values])


PointKernel: TypeAlias = FieldKernel | PointAverage
"""Kernels between points."""


def kernel_symmetry(kernel: FieldKernel, action: PointAction, x: FieldPoints) -> str | None:
    """The known symmetry of the network's kernel at points x: "invariant", "equivariant", or None if unknown.

    The network's method `field_symmetry` declares it for all inputs of this shape.
    """
    shape, moves = tuple(x.signals.shape[1:]), action.table[list(action.group.generators)]
    says = getattr(kernel.net, "field_symmetry", None)
    return None if says is None else says(action.action, shape, moves)


class EquivariantField:
    """The field of a network with equivariant outputs, kernels (N1, N2, d, d): `kernel_field` (N1, d, N2, d)."""

    def __init__(self, net: KernelFunction) -> None:
        self.net = net

    def kernel_field(self, x1: ArrayLike, x2: ArrayLike | None = None) -> AnyKernels:
        """Kernels between all outputs at all inputs."""
        return _each(self.net.kernel(x1, x2), lambda k: k.transpose(0, 2, 1, 3))

    def kernel_field_diagonal(self, x: ArrayLike, positions: str = "same") -> AnyKernels:
        """The kernel of every output at every input with itself, (N, d)."""
        return _each(cast(Any, self.net).kernel_diagonal(x), lambda k: np.einsum("naa->na", k))


def output_symmetry(
    net: object, augmentation: Action, label_action: GroupAction | None, x: ArrayLike, outputs: int
) -> str | None:
    """Return "equivariant" if K(gx, x') = ρ_Y(g) K(x, x') for all inputs: then copies (gx_i, ρ_Y(g)y_i) add nothing.

    The network's `outputs_equivariant_under` decides; without it the answer is None.
    """
    says = getattr(net, "outputs_equivariant_under", None)
    matrices = [np.eye(outputs)] * len(augmentation.group.generators)
    if label_action is not None:  # its rows are what becomes of unit vectors
        units = np.eye(outputs)
        matrices = [np.asarray(label_action(g, units), np.float64).T for g in augmentation.group.generators]
    known = says is not None and says(augmentation, tuple(x.shape[1:]), np.reshape(matrices, (-1, outputs, outputs)))
    return "equivariant" if known else None


@dataclass(frozen=True)
class OutputPositions:
    """The positions of a network's outputs: a grid of `shape`; with `equivariant`, the components (d,) of an output."""

    shape: tuple[int, ...]
    equivariant: bool = False

    @property
    def count(self) -> int:
        """P, the number of positions."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return "×".join(map(str, self.shape)) + " positions"

    def checked(self, y: np.ndarray, samples: int) -> tuple[np.ndarray, bool]:
        """(targets (N, *positions, outputs), whether y came without the axis of outputs)."""
        if y.shape == (samples, *self.shape):
            return y[..., None], True
        if self.equivariant:
            raise ShapeError(
                "y", y.shape, (samples, self.count), "one row of the outputs, which transform with the input"
            )
        if y.ndim == len(self.shape) + 2 and y.shape[:-1] == (samples, *self.shape):
            return y, False
        raise ShapeError(
            "y",
            y.shape,
            (samples, *self.shape, "outputs"),
            "for one target a sample, end the network with Flatten, GlobalAvgPool or GroupPool, and Dense",
        )


def output_positions(net: KernelFunction | FieldFunction, x: ArrayLike, y: Targets) -> OutputPositions | None:
    """The positions that a network ends on; None if it ends on one and targets are (N,) or (N, outputs).

    For users' networks, the shape of `kernel_field` gives their number, and that of the targets y their grid.
    """
    targets = np.asarray(y).shape  # what only becomes an array, such as a data frame, may refuse NumPy's functions
    if (outputs := getattr(net, "equivariant_outputs", None)) is not None:
        return OutputPositions((outputs,), equivariant=True)
    if isinstance(net, Sequential):
        try:
            shape = net.output_shape(x.shape[1:])[:-1]
        except NetworkError:  # the inputs do not fit; what is checked next says why
            return None
        if math.prod(shape) > 1 or (shape and targets[1:-1] == shape):
            return OutputPositions(shape)
        return None
    field = getattr(net, "kernel_field", None)
    if not callable(field) or len(targets) < 3:
        return None
    count = field(x[:1]).nngp.shape[1]
    grids = (targets[1:-1], targets[1:])  # with outputs, and without
    for grid in grids:
        if math.prod(grid) == count:
            return OutputPositions(grid)
    raise ShapeError("y", targets, f"targets on {count} positions, those on which the network ends")


def moved_positions(augmentation: AnyAction, label_action: AnyAction, positions: OutputPositions) -> np.ndarray:
    """π, (|G|, P): where each element takes output positions; from the label action if it moves positions.

    Actions that move no positions, or not exactly, give the identity.
    """
    full_action: AnyAction = whole_action(augmentation)
    here = np.arange(positions.count)
    for action in () if positions.equivariant else (label_action, full_action):
        moving = action.positions if isinstance(action, FieldAction) else action
        if moving is None or not moving.exact or not moving.permutes_positions:
            continue
        try:
            return np.asarray(moving.position_table((*positions.shape, 1)))
        except (ShapeError, InvalidArgumentError) as error:
            raise ShapeError(
                "augmentation",
                full_action,
                "one that moves the positions on which the network ends",
                f"give a label_action of the same group that does: {error}",
            ) from None
    return np.tile(here, (full_action.group.order, 1)) if full_action.group.elements is not None else here[None]


def moved_targets(augmentation: AnyAction, label_action: AnyAction, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g) y for the augmentation's elements, (|G|, *y.shape), y (N, *positions, outputs)."""
    elements = augmenting_elements(augmentation)
    action = value_keeping(whole_action(augmentation)) if label_action is None else label_action
    return augment_targets(action, y, elements).reshape(len(elements), *y.shape)


def value_keeping(action: AnyAction) -> AnyAction:
    """The action on fields whose values move with their positions and do not change; None if no position moves."""
    moving = action.positions if isinstance(action, FieldAction) else action
    return moving if moving.permutes_positions or moving.channels_last else None


@dataclass(frozen=True, eq=False)
class RowAction:
    """An action on arrays (N, *shape), applied to rows (N, prod(shape)) of all their values, position by position."""

    action: GroupMap
    shape: tuple[int, ...]

    @property
    def group(self) -> SymmetryGroup:
        """The group that acts."""
        return self.action.group

    def __call__(self, g: Element, y: np.ndarray) -> np.ndarray:
        """ρ(g) y, as rows."""
        return np.asarray(self.action(g, y.reshape(len(y), *self.shape))).reshape(y.shape)


def field_shape(ensemble: AnyModel) -> tuple[int, ...] | None:
    """(*positions, outputs) of a fitted ensemble's outputs, if they are fields; else None."""
    grid = tuple(getattr(ensemble, "positions_", ()))
    return (*grid, int(ensemble.n_outputs_)) if grid else None


def classifies_by(task: str, network: KernelFunction, x: np.ndarray, y: np.ndarray) -> bool:
    """Whether `task`, "classification", "regression" or "auto", is to classify.

    "auto" classifies if y holds whole numbers, texts or truth values, one per input or per position of the output.
    """
    labels = task != "regression" and y.dtype.kind in "iuUSb"
    if task == "auto" and labels and y.ndim > 1:
        positions = output_positions(network, x, y)
        labels = positions is not None and y.shape[1:] == positions.shape
    return labels or task == "classification"
