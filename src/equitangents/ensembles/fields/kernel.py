"""The kernel of a network's outputs at single points, from its kernel field, in blocks; what groups do to it.

invariant    Θ(g z, g z′) = Θ(z, z′): full augmentation is solved at the size of the data
equivariant  Θ(z, g z′) = Θ(z, z′): every member obeys f(ρ_X(g)x)(π_g p) = f(x)(p), and copies say nothing new

Outputs that turn with the input, (N, d), are fields on d places: what covaries is treated alike, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from equitangents._types import ArrayLike, DType
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.invariance import draws_noise
from equitangents.kernels.result import FieldFunction, KernelField, NngpKernels
from equitangents.solvers.matrices import KernelMatrix

_ENTRIES = 2**22  # of a block of the field, NNGP and NTK each: 16 MB in float32, which an allocator uses again
_LANDMARKS = 8192  # points from which landmarks are drawn, 256 MB of their kernel in float32
_TILE = 4096  # points: whole signals, so that no field is computed for a part of it, and enough pairs for all cores


AnyKernels = Kernels | NngpKernels
"""Of networks without a tangent kernel the NNGP alone."""


def _values(kernels: AnyKernels | KernelField, dtype: DType | None = None) -> list[np.ndarray]:
    """The NNGP, and the NTK if there is one."""
    names = ("nngp",) if hasattr(kernels, "reason") else ("nngp", "ntk")
    return [np.asarray(getattr(kernels, name), dtype) for name in names]


def _like(kernels: AnyKernels | KernelField, values: list[np.ndarray]) -> AnyKernels:
    """Kernels of these values, without an NTK where `kernels` have none."""
    reason = getattr(kernels, "reason", None)
    return Kernels(values[0], values[1]) if reason is None else NngpKernels(values[0], reason)


def _each(kernels: AnyKernels, change: Callable[[np.ndarray], np.ndarray]) -> AnyKernels:
    return _like(kernels, [change(values) for values in _values(kernels)])


class FieldKernel:
    """`kernel(a, b)` between points of a network that has `kernel_field`: an object with kernels as networks are.

    net: a network that ends on positions, or anything with `kernel_field(x1, x2=None)`.
    """

    def __init__(self, net: FieldFunction) -> None:
        self.net = net

    @property
    def draws_noise(self) -> bool:
        """Whether the kernel of the network depends on more than its two inputs, as in dropout."""
        return draws_noise(self.net)

    def kernel(self, x1: FieldPoints, x2: FieldPoints | None = None) -> AnyKernels:
        """NNGP and NTK between points, (A, B), from fields of blocks of signals; of points with themselves half."""
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
    """(some signals, where their points are)."""
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
    """Kernel of points with themselves, computed whenever it is asked for."""

    def __init__(self, kernel: PointKernel, x: FieldPoints, field: str) -> None:
        side = max(1, _TILE // x.count) * x.count
        super().__init__(cast(KernelFunction, kernel), x, field, tile=side)  # points are indexed as inputs are
        self.words = f"the {field.upper()} of {self.size} outputs ({x.count} positions each)"

    def landmark_rows(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """Points of random signals, at least twice as many as `count`: a field is computed for all its positions."""
        images = np.unique(self.x.image)
        wanted = -(-max(_LANDMARKS, 2 * count) // self.x.count)
        if wanted >= len(images):
            return None
        return np.flatnonzero(np.isin(self.x.image, rng.choice(images, wanted, replace=False)))

    def _inputs_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.x.image[rows])


@dataclass(frozen=True)
class PointAverage:
    """The kernel of points averaged over one orbit of an action under which it is invariant."""

    base: FieldKernel
    action: PointAction

    def kernel(self, a: FieldPoints, b: FieldPoints | None = None) -> AnyKernels:
        """(1/|G|) Σ_g Θ(a, g b), NNGP and NTK; of points with themselves made exactly symmetric."""
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
    """What the network says its kernel of points x is: "invariant" or "equivariant"; None if it says nothing.

    Its method `field_symmetry` says so of all inputs of their shape.
    """
    shape, moves = tuple(x.signals.shape[1:]), action.table[list(action.group.generators)]
    says = getattr(kernel.net, "field_symmetry", None)
    return None if says is None else says(action.action, shape, moves)


class TurningField:
    """The field of a network whose kernels are (N1, N2, d, d): `kernel_field` (N1, d, N2, d)."""

    def __init__(self, net: KernelFunction) -> None:
        self.net = net

    def kernel_field(self, x1: ArrayLike, x2: ArrayLike | None = None) -> AnyKernels:
        """Kernels between all outputs at all inputs."""
        return _each(self.net.kernel(x1, x2), lambda k: k.transpose(0, 2, 1, 3))

    def kernel_field_diagonal(self, x: ArrayLike, positions: str = "same") -> AnyKernels:
        """The kernel of every output at every input with itself, (N, d)."""
        return _each(cast(Any, self.net).kernel_diagonal(x), lambda k: np.einsum("naa->na", k))


def equivariant_outputs(net: object) -> int | None:
    """How many outputs turn into one another; None for networks whose outputs are alike."""
    found: int | None = getattr(net, "equivariant_outputs", None)
    return found


def turning_symmetry(
    net: object, augmentation: Action, label_action: GroupAction | None, x: ArrayLike, outputs: int
) -> str | None:
    """Return "equivariant" if K(gx, x') = ρ_Y(g) K(x, x') for all inputs: then copies (gx_i, ρ_Y(g)y_i) say no more.

    By what the network says of itself in `outputs_equivariant_under`; what says nothing is not known to turn.
    """
    says = getattr(net, "outputs_equivariant_under", None)
    turned = [np.eye(outputs)] * len(augmentation.group.generators)
    if label_action is not None:  # its rows are what becomes of unit vectors
        units = np.eye(outputs)
        turned = [np.asarray(label_action(g, units), np.float64).T for g in augmentation.group.generators]
    known = says is not None and says(augmentation, tuple(x.shape[1:]), np.stack(turned))
    return "equivariant" if known else None
