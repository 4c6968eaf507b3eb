"""The kernel of a network's outputs at single points, from its kernel field: computed block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equitangents.ensembles.fields.points import FieldPoints
from equitangents.kernels import Kernels
from equitangents.kernels.result import FieldFunction, NngpKernels

_ENTRIES = 2**22  # of a block of the field, NNGP and NTK each: 16 MB in float32, which an allocator uses again


class FieldKernel:
    """`kernel(a, b)` between points of a network that has `kernel_field`: an object with kernels as networks are.

    net: a network that ends on positions, or anything with `kernel_field(x1, x2=None)`.
    """

    def __init__(self, net: FieldFunction) -> None:
        self.net = net

    def kernel(self, x1: Any, x2: Any = None) -> Any:
        """NNGP and NTK between points, (A, B); of points with themselves half of the blocks are computed."""
        a, b = x1, x2
        other = a if b is None else b
        shape = len(a), len(other)
        both = [np.empty(shape, a.dtype), np.empty(shape, a.dtype)]
        reason: str | None = None
        for rows, columns, field in self.blocks(a, b):
            reason = getattr(field, "reason", None)
            for out, name in zip(both, ("nngp", "ntk"), strict=True):
                if name == "ntk" and reason is not None:
                    continue
                part = picked(getattr(field, name), a, other, rows, columns)
                out[np.ix_(rows, columns)] = part
                if b is None:
                    out[np.ix_(columns, rows)] = part.T
        return Kernels(both[0], both[1]) if reason is None else NngpKernels(both[0], reason)

    def kernel_diagonal(self, a: FieldPoints) -> Any:
        """NNGP and NTK of every point with itself, each (A,)."""
        images, of = np.unique(a.image, return_inverse=True)
        field = _same_positions(self.net, np.asarray(a.signals)[images])
        reason = getattr(field, "reason", None)
        nngp = np.asarray(field.nngp)[of, a.position]
        return Kernels(nngp, np.asarray(field.ntk)[of, a.position]) if reason is None else NngpKernels(nngp, reason)

    def applied(self, a: FieldPoints, b: FieldPoints, name: str, weights: list[np.ndarray]) -> np.ndarray:
        """Θ(a, b) W for each W (B, k) of the list, (len(weights), A, k) in float64, holding one block at a time.

        name: "ntk" or "nngp".
        """
        total = np.zeros((len(weights), len(a), weights[0].shape[1]))
        for rows, columns, field in self.blocks(a, b):
            part = np.asarray(picked(getattr(field, name), a, b, rows, columns), np.float64)
            for out, each in zip(total, weights, strict=True):
                out[rows] += part @ each[columns]
        return total

    def blocks(self, a: FieldPoints, b: FieldPoints | None) -> Iterator[tuple[np.ndarray, np.ndarray, Any]]:
        """(rows, columns, the field between the signals that they belong to), block by block; b None: a, half of it."""
        other = a if b is None else b
        rows = list(_by_signals(a, _signals_at_once(a, other)))
        columns = rows if b is None else list(_by_signals(other, _signals_at_once(a, other)))
        for i, (images1, here) in enumerate(rows):
            x1 = np.asarray(a.signals)[images1]
            for images2, there in columns[i:] if b is None else columns:
                same = b is None and images1 is images2
                field = self.net.kernel_field(x1, None if same else np.asarray(other.signals)[images2])
                yield here, there, field


def _signals_at_once(a: FieldPoints, b: FieldPoints) -> int:
    return max(1, int((_ENTRIES / (a.count * b.count)) ** 0.5))


def _by_signals(points: FieldPoints, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(some signals, where their points are)."""
    order = np.argsort(points.image, kind="stable")
    images, starts = np.unique(points.image[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for begin in range(0, len(images), most):
        end = min(begin + most, len(images)) - 1
        yield images[begin : end + 1], order[starts[begin] : ends[end]]


def picked(field: Any, a: FieldPoints, b: FieldPoints, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The entries of a field (n1, P, n2, P) at some points of a and b."""
    values = np.asarray(field)
    matrix = values.reshape(values.shape[0] * values.shape[1], -1)
    return _selected(_selected(matrix, a, rows, 0), b, columns, 1)


def _selected(matrix: np.ndarray, points: FieldPoints, chosen: np.ndarray, axis: int) -> np.ndarray:
    image = np.searchsorted(np.unique(points.image[chosen]), points.image[chosen])
    index = image * points.count + points.position[chosen]
    if len(index) == matrix.shape[axis] and (index == np.arange(len(index))).all():
        return matrix
    return matrix.take(index, axis)


def _same_positions(net: FieldFunction, signals: np.ndarray) -> Any:
    """The field of each signal with itself at equal positions, (n, P)."""
    diagonal = getattr(net, "kernel_field_diagonal", None)
    if callable(diagonal):
        return diagonal(signals, positions="same")
    parts = [net.kernel_field(signals[i : i + 1]) for i in range(len(signals))]
    pick = lambda name: np.stack([np.asarray(getattr(part, name))[0, :, 0].diagonal() for part in parts])
    return Kernels(pick("nngp"), pick("ntk"))
