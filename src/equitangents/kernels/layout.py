"""How the numbers of a pair of inputs lie in memory: one, or as many as pairs of positions are asked for.

Inside, results are (N1, N2, *tail). A field over all pairs of positions is (N1, P, N2, P') in memory and in public, so
that inside it is a view with its axes moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import DType


@dataclass(frozen=True)
class Layout:
    """`tail` are the axes of a pair of inputs; `crossed` if they are (P, P'), of the first input and of the second."""

    tail: tuple[int, ...] = ()
    crossed: bool = False

    @property
    def numbers(self) -> int:
        """How many numbers belong to a pair of inputs."""
        return int(np.prod(self.tail, dtype=np.int64))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Zeros (N1, N2, *tail) in the memory order of the public result."""
        if not self.crossed:
            return np.zeros((*shape, *self.tail), dtype)
        return np.zeros((shape[0], self.tail[0], shape[1], self.tail[1]), dtype).transpose(0, 2, 1, 3)

    def public(self, values: Any) -> Any:
        """What a user sees: (N1, P, N2, P') where `crossed`, else (N1, N2, *tail)."""
        return values.transpose(0, 2, 1, 3) if self.crossed else values

    def mirrored(self, values: Any) -> Any:
        """Kernels of x2 with x1 from those of x1 with x2."""
        return values.transpose(1, 0, 3, 2) if self.crossed else values.swapaxes(0, 1)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """What is known of inputs or pairs of them, brought beside arrays with the axes `tail` after these."""
        return values.reshape(values.shape + (1,) * len(self.tail))


MATRIX = Layout()
