"""Which pairs of positions of a kernel field are wanted: all, the same position on both sides, or a list of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.kernels.layout import Layout
from equitangents.kernels.program import FrozenArray


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
    """The part of a field over `count` positions that `positions` asks for: "all", "same", or pairs (M, 2).

    Raises InvalidArgumentError, InvalidTypeError or ShapeError, which say what `positions` may be.
    """
    expected = "expected 'all', 'same', or whole numbers (M, 2), first and second position"
    if isinstance(positions, str):
        if positions == "all":
            return Part("all", count)
        if positions == "same":
            return Part("same", count)
        raise InvalidArgumentError(f"positions is {positions!r}; {expected}")
    pairs = np.asarray(positions)
    if pairs.dtype.kind not in "iu":
        raise InvalidTypeError(f"positions is an array of {pairs.dtype.name}; {expected}")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShapeError(f"positions has shape {pairs.shape}; {expected}")
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < count):
        raise ShapeError(f"positions holds {pairs.min()} to {pairs.max()}; expected 0 to {count - 1}, row by row")
    return Part("pairs", count, FrozenArray(pairs.astype(np.int64)))
