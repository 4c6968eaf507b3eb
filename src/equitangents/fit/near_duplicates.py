"""Pairs of images that are nearly equal, among all pairs and the turned and mirrored copies of one of them.

Nearly equal means min_g |x_i − ρ(g) x_j|² ≤ t² (|x_i − m_i|² + |x_j − m_j|²)/2 with t = 0.1, m an image's mean colour:
a file that was saved again is, another tile of one slide is not. Each lets its twin be predicted too well.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.fit.features import block_means, symmetries
from equitangents.fit.problem import Sets

_NEAR = 0.1
_SIDE = 32  # pixels of a side, at most, to which images are averaged down for a first look
_ROUNDING = 1e-5  # of squares in single precision
_ROWS = 512  # at once


def near_duplicates(x: Float[np.ndarray, "n height width channels"], sets: Sets) -> tuple[tuple[int, int], ...]:
    """Pairs (i, j), i < j, of nearly equal images that do not leave together (`sets`), in their order.

    The first look is at means over blocks of w² pixels, for which |a − b|² is at most 1/w² of that of the pixels: it
    leaves out no pair. What it finds is compared pixel by pixel, in float64.
    """
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=(0, 1, 2))
    leaves = np.empty(len(x), np.int64)
    for k, each in enumerate(sets):
        leaves[each] = k
    window = -(-max(x.shape[1:3]) // _SIDE)
    size = ((x - x.mean(axis=(1, 2), keepdims=True)) ** 2).sum(axis=(1, 2, 3))
    found = set[tuple[int, int]]()
    small = _smaller(x, window)
    squares = (small**2).sum(axis=1)
    for copies in symmetries(x, (1, 2)):
        others = _smaller(copies, window)
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            both = squares[rows, None] + squares
            apart = both - 2 * small[rows] @ others.T
            bound = _NEAR**2 * (size[rows, None] + size) / 2 / window**2
            i, j = np.nonzero(apart <= bound + _ROUNDING * both)
            i = i + start
            i, j = (index[(i < j) & (leaves[i] != leaves[j])] for index in (i, j))
            for begin in range(0, len(i), _ROWS):
                a, b = i[begin : begin + _ROWS], j[begin : begin + _ROWS]
                exact = ((x[a] - copies[b]) ** 2).sum(axis=(1, 2, 3)) <= _NEAR**2 * (size[a] + size[b]) / 2
                found.update(zip(a[exact].tolist(), b[exact].tolist(), strict=True))
    return tuple(sorted(found))


def _smaller(x: np.ndarray, window: int) -> Float[np.ndarray, "n pixels"]:
    """Means over blocks of window² pixels, without what remains at the border, in single precision."""
    return np.ascontiguousarray(block_means(x, window).reshape(len(x), -1), np.float32)
