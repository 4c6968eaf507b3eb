"""Kernel matrices of a pool, each computed once; whatever is trained on parts of it takes sub-blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.extending import is_whole
from equitangents.kernels import KernelFunction, Kernels
from equitangents_studies.systems.progress import Step

KernelName = Literal["ntk", "nngp"]
_ROWS = 500  # of a tile


@dataclass(frozen=True, eq=False)
class PoolKernel:
    """The kernel of N inputs with the first P of them, the pool, in the inputs' precision."""

    matrix: Float[np.ndarray, "n pool"]

    @property
    def pool(self) -> Float[np.ndarray, "pool pool"]:
        """The kernel of the pool with itself."""
        return self.matrix[: self.matrix.shape[1]]

    @property
    def unit(self) -> float:
        """The mean diagonal of the pool's kernel, which ridges are relative to."""
        return float(np.diagonal(self.pool).mean(dtype=np.float64))

    def curve(
        self,
        targets: Float[np.ndarray, "n outputs"],
        order: Int[np.ndarray, " most"],
        test: Int[np.ndarray, " test"],
        sizes: Int[np.ndarray, " sizes"],
        ridge: float,
    ) -> Float[np.ndarray, "sizes test outputs"]:
        """Predictions at `test` of kernel regression on the first n of `order`, for every size, from one factor.

        K = L Lᵀ of the largest set holds those of all smaller ones: with V = L⁻¹ K(X, x) and Z = L⁻¹ Y the prediction
        is V[:n]ᵀ Z[:n]. ridge: added to the diagonal, in the units of `unit`.
        """
        chosen = order[: sizes[-1]]
        K = self.matrix[np.ix_(chosen, chosen)].astype(np.float64)
        K[np.diag_indices(len(K))] += ridge * self.unit
        try:
            L = scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                f"the kernel matrix of {len(chosen)} training inputs with ridge {ridge:g} is not positive definite to "
                "working precision; take a larger ridge, or inputs in float64"
            ) from None
        solve = lambda b: scipy.linalg.solve_triangular(L, b, lower=True, check_finite=False)
        V, Z = solve(self.matrix[np.ix_(test, chosen)].T.astype(np.float64)), solve(targets[chosen])
        found, total, start = [], np.zeros((len(test), targets.shape[1])), 0
        for n in sizes:
            total = total + V[start:n].T @ Z[start:n]
            found.append(total)
            start = n
        return np.stack(found)


def pool_kernel(net: KernelFunction, x: np.ndarray, pool: int, kernel: KernelName, step: Step) -> PoolKernel:
    """The kernel of a network, an orbit average, or a kept kernel, of x with the first `pool` of x, tile by tile."""
    if kernel not in ("ntk", "nngp"):
        raise InvalidArgumentError(f"kernel is {kernel!r}; expected 'ntk' or 'nngp'")
    return PoolKernel(symmetric_kernel(net, x, kernel, step, rows=pool))


def symmetric_kernel(
    net: KernelFunction, x: np.ndarray, kernel: KernelName, step: Step, rows: int | None = None
) -> Float[np.ndarray, "n columns"]:
    """The kernel of x with the first `rows` of it (None: all); of blocks off the diagonal one of each two."""
    n, columns = len(x), len(x) if rows is None else rows
    starts = range(0, n, _ROWS)
    tiles = [(a, b) for b in starts if b < columns for a in starts if a >= b]
    K = np.empty((n, columns), x.dtype)
    for done, (a, b) in enumerate(tiles, 1):
        across = slice(b, min(b + _ROWS, n))
        if a == b:
            block = np.asarray(getattr(net.kernel(x[across]), kernel))
        else:
            block = np.asarray(getattr(net.kernel(x[a : a + _ROWS], x[across]), kernel))
        width = min(across.stop, columns) - b
        K[a : a + _ROWS, b : b + width] = block[:, :width]
        if a != b and a < columns:
            height = min(a + len(block), columns) - a
            K[b : across.stop, a : a + height] = block[:height].T
        step(done, len(tiles))
    return K


@dataclass(frozen=True, eq=False)
class KernelTable:
    """Kernels read from a matrix: inputs are numbers of rows (N, 1). It takes a network's place in an ensemble."""

    matrices: Callable[[np.ndarray, np.ndarray], Kernels]

    def kernel(self, x1: Any, x2: Any = None) -> Kernels:
        """The kernels between rows x1 and x2 (None: x1)."""
        i = np.asarray(x1)[:, 0].astype(int)
        return self.matrices(i, i if x2 is None else np.asarray(x2)[:, 0].astype(int))


def check_ridge(ridge: Any) -> float:
    """`ridge` as a finite number ≥ 0, or an error."""
    if not (isinstance(ridge, float | np.floating) or is_whole(ridge)) or not 0 <= ridge < np.inf:
        raise InvalidArgumentError(f"ridge is {ridge!r}; expected a finite number ≥ 0")
    return float(ridge)
