"""Fast rotations of many images by many angles: one sparse matrix per angle, one spline filter for all.

A turn by more than 45° is a quarter turn, which moves pixels to pixels, after a smaller one: C₂₄ needs five matrices.

The maps are those of `equitangents.actions.image_rotations`: (ρ(g) f)(p) = f(g⁻¹ p) about the image's centre, read from
a B-spline through the pixels, zero outside. With outside="edge" the nearest border point is read instead, so that
no border drops out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import scipy.sparse

from equitangents.actions.images import disc
from equitangents.actions.splines import Outside, prefilter, turned_taps


@final
class Turner:
    """Rotations and reflections of images (N, H, W, C), channels last."""

    def __init__(self, order: int, mask: str | None, outside: Outside = "zero"):
        self.order, self.mask, self.outside = order, mask, outside

    def orbit(self, motions: Sequence[tuple[float, bool]], x: np.ndarray) -> Iterator[np.ndarray]:
        """For every (degrees, reflected): x, reflected left to right or not, then rotated counter-clockwise."""
        coefficients: dict[bool, np.ndarray] = {}
        for degrees, reflected in motions:
            start = x[:, :, ::-1] if reflected else x
            quarters = int(np.floor(degrees / 90 + 0.5))
            rest = float(degrees - 90 * quarters)
            y = start
            if rest:
                if reflected not in coefficients:
                    coefficients[reflected] = self._coefficients(start)
                c = coefficients[reflected]
                y = _MATRICES.turn(rest, self.order, x.shape[1:3], c.dtype.char, self.outside) @ c
                y = np.moveaxis(y.reshape(*x.shape[1:3], len(x), x.shape[3]), 2, 0)
            y = np.rot90(y, quarters, axes=(1, 2))
            yield y if self.mask is None else y * disc(x.shape[1:3])[..., None].astype(y.dtype)

    def _coefficients(self, x: np.ndarray) -> np.ndarray:
        """Spline coefficients, (pixels, N·C)."""
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        F, E = (prefilter(self.order, n).astype(dtype) for n in x.shape[1:3])
        c = np.einsum("ai,nijc,bj->abnc", F, x, E, optimize=True)
        return np.ascontiguousarray(c.reshape(x.shape[1] * x.shape[2], -1))


class _Matrices:
    """The matrices used last, at most `most` bytes for all angles together; for large images each takes megabytes."""

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], scipy.sparse.csr_matrix] = OrderedDict()

    def turn(
        self, degrees: float, order: int, positions: tuple[int, int], dtype: str, outside: Outside
    ) -> scipy.sparse.csr_matrix:
        """Matrix (pixels, coefficients) from spline coefficients to the rotated image."""
        key = (degrees, order, positions, dtype, outside)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = _turn(degrees, order, positions, dtype, outside)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > 1 and sum(map(_nbytes, self._kept.values())) > self._most:
                self._kept.popitem(last=False)
        return made


_MATRICES = _Matrices(2**26)


def _turn(
    degrees: float, order: int, positions: tuple[int, int], dtype: str, outside: Outside
) -> scipy.sparse.csr_matrix:
    index, weights = turned_taps(np.radians(degrees), order, positions, outside)
    taps, pixels = index.shape
    starts = np.arange(0, taps * pixels + 1, taps, dtype=np.int32 if taps * pixels < 2**31 else np.int64)
    entries = weights.T.astype(dtype).ravel(), index.T.astype(starts.dtype).ravel(), starts
    return scipy.sparse.csr_matrix(entries, shape=(pixels, pixels))


def _nbytes(matrix: scipy.sparse.csr_matrix) -> int:
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
