"""How fast this machine is, measured once a process in some hundredths of a second, for forecasts of time."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from equitangents.solvers.matrices import SymmetricMatrix

_SIDE = 384


@cache
def flops_a_second(precision: str) -> float:
    """Floating-point operations of matrix products in a second, on as many threads as NumPy uses."""
    a = np.full((_SIDE, _SIDE), 1 / _SIDE, precision)
    a @ a
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * _SIDE**3 / best


def seconds_of_product(matrix: SymmetricMatrix, vectors: int) -> float:
    """Seconds that a product with so many vectors takes, from one tile, or from what memory gives."""
    n = matrix.size
    multiplying = 2 * n * n * vectors / flops_a_second("float64")
    if matrix.in_memory or not matrix.has_blocks:
        return multiplying + n * n * matrix.dtype.itemsize / 5e9
    probe = slice(0, min(n, matrix.probe))
    other = slice(n - probe.stop, n)
    matrix.block(probe, other)
    start = time.perf_counter()
    matrix.block(probe, other)
    return multiplying + (time.perf_counter() - start) * n * n / 2 / probe.stop**2
