"""Values at single positions of an output: a point is (input, position), and a field's kernel one of points.

Θ((x, p), (x′, p′)) = E[Σ_μ ∂_μ f(x)(p) ∂_μ f(x′)(p′)]. A data set of N fields on P positions is one of N·P points with
one value each (for every output channel), so that training on fields is the training of any other regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.inference.augmented import row_digests


@dataclass(frozen=True, eq=False)
class FieldPoints:
    """Points (signals[image], position), in arrays of any shape; it is sliced, indexed and reshaped as an array is.

    signals (n, *positions, C): inputs. image, position: whole numbers, both of one shape. count: P, the positions of an
    output. As an array it has the shape (*shape of image, *shape of a signal).
    """

    signals: Any
    image: np.ndarray
    position: np.ndarray
    count: int

    @staticmethod
    def of(signals: Any, count: int) -> FieldPoints:
        """All positions of all signals, position by position, (n·P,)."""
        n = len(signals)
        return FieldPoints(signals, np.repeat(np.arange(n), count), np.tile(np.arange(count), n), count)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array that holds a signal for every point."""
        return (*self.image.shape, *self.signals.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """The type of the signals' numbers."""
        return np.dtype(self.signals.dtype)

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Any) -> FieldPoints:
        return FieldPoints(self.signals, self.image[index], self.position[index], self.count)

    def reshape(self, *shape: int) -> FieldPoints:
        """Points in another shape, of which the signals' axes are the last."""
        own = shape[: len(shape) - self.signals.ndim + 1]
        return FieldPoints(self.signals, self.image.reshape(own), self.position.reshape(own), self.count)

    def swapaxes(self, a: int, b: int) -> FieldPoints:
        """Points with two of their own axes exchanged."""
        return FieldPoints(self.signals, self.image.swapaxes(a, b), self.position.swapaxes(a, b), self.count)

    def digests(self) -> list[bytes]:
        """Equal for points at one position of equal signals, as `row_digests` has it."""
        of_signals = row_digests(self.signals)
        return [of_signals[i] + int(p).to_bytes(4, "little") for i, p in zip(self.image, self.position, strict=True)]

    def blocks(self, numbers: int) -> list[slice]:
        """Points in parts of at most `numbers`, each of whole signals where points lie signal by signal."""
        step = max(1, numbers // self.count) * self.count if numbers >= self.count else numbers
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), max(1, step))]
