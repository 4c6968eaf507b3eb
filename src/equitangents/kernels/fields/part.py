"""Parts of a kernel field: pairs of positions, and their memory layout.

All pairs, the same position on both sides, or a list. Inside, results are (N1, N2, *tail). A field over all pairs of
positions is (N1, P, N2, P') in memory and in public, so that inside it is a view with its axes moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents._types import DType
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.kernels.operation import FrozenArray


@dataclass(frozen=True)
class Layout:
    """`tail` are the axes of a pair of inputs; `crossed` if they are (P, P'), of the first input and of the second."""

    tail: tuple[int, ...] = ()
    crossed: bool = False

    @property
    def numbers(self) -> int:
        """Numbers per pair of inputs."""
        return int(np.prod(self.tail, dtype=np.int64))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Zeros (N1, N2, *tail) in the memory order of the public result."""
        if not self.crossed:
            return np.zeros((*shape, *self.tail), dtype)
        return np.zeros((shape[0], self.tail[0], shape[1], self.tail[1]), dtype).transpose(0, 2, 1, 3)

    def public(self, values: Any) -> Any:
        """The public layout: (N1, P, N2, P') if `crossed`, else (N1, N2, *tail)."""
        return values.transpose(0, 2, 1, 3) if self.crossed else values

    def mirrored(self, values: Any) -> Any:
        """Kernels of x2 with x1 from those of x1 with x2."""
        return values.transpose(1, 0, 3, 2) if self.crossed else values.swapaxes(0, 1)

    def write(self, out: np.ndarray, rows: slice, columns: slice, values: Any, symmetric: bool) -> None:
        """Write a tile, cut to size; of a symmetric result the other half too, and its diagonal exactly symmetric."""
        found = np.asarray(values)[: rows.stop - rows.start, : columns.stop - columns.start]
        if symmetric and rows == columns:
            found = (found + self.mirrored(found)) / 2
        out[rows, columns] = found
        if symmetric and rows != columns:
            out[columns, rows] = self.mirrored(found)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of inputs or pairs, with the axes `tail` added for broadcasting."""
        return values.reshape(values.shape + (1,) * len(self.tail))


MATRIX = Layout()


@dataclass(frozen=True)
class Part:
    """Pairs of `count` positions; `pairs`, int64 (M, 2), first and second position, where they are listed."""

    kind: Literal["all", "same", "pairs"]
    count: int
    pairs: FrozenArray | None = None

    @property
    def layout(self) -> Layout:
        """The axes of one pair of inputs: (P, P'), (P,) or (M,)."""
        if self.pairs is not None:
            return Layout((len(self.pairs.array),))
        return Layout((self.count, self.count), crossed=True) if self.kind == "all" else Layout((self.count,))

    @property
    def mirrors(self) -> bool:
        """Whether kernels of x2 with x1 follow from those of x1 with x2."""
        return self.pairs is None or bool((self.pairs.array[:, 0] == self.pairs.array[:, 1]).all())

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second positions, each of the shape `layout.tail`."""
        if self.pairs is not None:
            return self.pairs.array[:, 0], self.pairs.array[:, 1]
        here = np.arange(self.count)
        if self.kind == "same":
            return here, here
        first, second = np.broadcast_arrays(here[:, None], here)
        return first, second

    def __str__(self) -> str:
        if self.pairs is not None:
            return f"{len(self.pairs.array):,} pairs of {self.count:,} positions"
        return f"all pairs of {self.count:,} positions" if self.kind == "all" else f"{self.count:,} positions"


def part_of(positions: Any, count: int) -> Part:
    """The part of a field over `count` positions for `positions`: "all", "same", or pairs (M, 2).

    Raises InvalidArgumentError, InvalidTypeError or ShapeError, which say what `positions` may be.
    """
    expected = "expected 'all', 'same', or whole numbers (M, 2), first and second position"
    if isinstance(positions, str):
        if positions == "all":
            return Part("all", count)
        if positions == "same":
            return Part("same", count)
        raise InvalidArgumentError("positions", positions, expected.removeprefix("expected "))
    pairs = np.asarray(positions)
    if pairs.dtype.kind not in "iu":
        raise InvalidTypeError("positions", pairs.dtype, expected.removeprefix("expected "), verb="is an array of")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShapeError("positions", pairs.shape, expected.removeprefix("expected "))
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < count):
        raise ShapeError(
            "positions", (int(pairs.min()), int(pairs.max())), range(count), "row by row", verb="holds numbers between"
        )
    return Part("pairs", count, FrozenArray(pairs.astype(np.int64)))
