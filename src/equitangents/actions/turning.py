"""Turning many images by many angles quickly: one sparse matrix an angle, one pass of the spline's filter for all.

The maps are those of `equitangents.actions.image_rotations`: (ρ(g) f)(p) = f(g⁻¹ p) about the image's centre, read from
a B-spline through the pixels, zero outside. With outside="edge" the nearest border point is read instead, which makes
the map continuous in the angle, as derivatives need it: else the border drops out at the smallest turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import final

import numpy as np
import scipy.sparse

from equitangents.actions.images import disc
from equitangents.actions.splines import Outside, prefilter, turned_taps


@final
class Turner:
    """Turns and reflections of images (N, H, W, C), channels last."""

    def __init__(self, order: int, mask: str | None, outside: Outside = "zero"):
        self.order, self.mask, self.outside = order, mask, outside

    def orbit(self, motions: Sequence[tuple[float, bool]], x: np.ndarray) -> Iterator[np.ndarray]:
        """For every (degrees, reflected): x, reflected left to right or not, then turned counter-clockwise."""
        coefficients: dict[bool, np.ndarray] = {}
        for degrees, reflected in motions:
            start = x[:, :, ::-1] if reflected else x
            if degrees % 90 == 0:
                y = np.rot90(start, round(degrees / 90), axes=(1, 2))
            else:
                if reflected not in coefficients:
                    coefficients[reflected] = self._coefficients(start)
                c = coefficients[reflected]
                y = _turn(float(degrees), self.order, *x.shape[1:3], c.dtype.char, self.outside) @ c
                y = np.moveaxis(y.reshape(*x.shape[1:3], len(x), x.shape[3]), 2, 0)
            yield y if self.mask is None else y * disc(x.shape[1:3])[..., None].astype(y.dtype)

    def _coefficients(self, x: np.ndarray) -> np.ndarray:
        """Spline coefficients, (pixels, N·C)."""
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        F, E = (prefilter(self.order, n).astype(dtype) for n in x.shape[1:3])
        c = np.einsum("ai,nijc,bj->abnc", F, x, E, optimize=True)
        return np.ascontiguousarray(c.reshape(x.shape[1] * x.shape[2], -1))


@lru_cache(maxsize=256)
def _turn(degrees: float, order: int, H: int, W: int, dtype: str, outside: Outside) -> scipy.sparse.csr_matrix:
    """The matrix (pixels, coefficients) by which the turned image reads the spline."""
    index, weights = turned_taps(np.radians(degrees), order, (H, W), outside)
    pixel = np.broadcast_to(np.arange(H * W), index.shape)
    shape = (H * W, H * W)
    return scipy.sparse.csr_matrix((weights.ravel().astype(dtype), (pixel.ravel(), index.ravel())), shape=shape)
