"""Kernel matrices of a pool, each computed once; training on parts of the pool uses sub-blocks.

Kernels between inputs and their copies under a finite group: Θ_g(x, x′) = Θ(x, ρ(g)x′), each pair of inputs once. Of an
invariant kernel Θ_{g⁻¹} = Θ_gᵀ, the mean over a subgroup H is the kernel of the network invariant under H, and (g, i),
(h, j) ↦ Θ_{g⁻¹h}(x_i, x_j) that of all N|G| copies. It decomposes into one block Σ_q Θ_q ⊗ ρ(q) for each irrep ρ, of
size N d, whose eigenvalues count d times. Invariant targets lie in the trivial irrep, whose block is |G| times the
kernel of the invariant network: this network need not learn the other irreps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from equitangents.actions import Action
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.extending import check_choice
from equitangents.groups import Group
from equitangents.inference import GroupFourier, fourier_irreps
from equitangents.kernels import KernelFunction

KernelName = Literal["ntk", "nngp"]
Step = Callable[[float, float], None]
"""Told how much is done, of how much."""

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
        """Mean diagonal of the pool's kernel; ridges are relative to it."""
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

        The factor of K = L Lᵀ contains those of all smaller sets: with V = L⁻¹ K(X, x) and Z = L⁻¹ Y the prediction is
        V[:n]ᵀ Z[:n]. ridge: added to the diagonal, in the units of `unit`.
        """
        chosen = order[: sizes[-1]]
        K = self.matrix[np.ix_(chosen, chosen)].astype(np.float64)
        K[np.diag_indices(len(K))] += ridge * self.unit
        try:
            L = scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                "ridge",
                ridge,
                "one with which the kernel matrix is positive definite",
                "take a larger one, or inputs in float64",
            ) from None
        solve = lambda b: scipy.linalg.solve_triangular(L, b, lower=True, check_finite=False)
        V, Z = solve(self.matrix[np.ix_(test, chosen)].T.astype(np.float64)), solve(targets[chosen])
        found, total, start = [], np.zeros((len(test), targets.shape[1])), 0
        for n in sizes:
            total = total + V[start:n].T @ Z[start:n]
            found.append(total)
            start = n
        return np.stack(found)


def symmetric_kernel(
    net: KernelFunction, x: np.ndarray, kernel: KernelName, step: Step, rows: int | None = None
) -> Float[np.ndarray, "n columns"]:
    """Kernel of x with its first `rows` inputs (None: all), in tiles; symmetric tiles are computed once."""
    check_choice("kernel", kernel, get_args(KernelName))
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
class GroupGrams:
    """Θ_g of N inputs for one element of each pair g, g⁻¹."""

    group: Group
    matrices: dict[int, Float[np.ndarray, "n n"]]

    def of(self, g: int) -> Float[np.ndarray, "n n"]:
        """The kernel matrix Θ_g of one element g."""
        return self.matrices[g] if g in self.matrices else self.matrices[self.group.inverse(g)].T

    def mean(self, elements: Iterable[int]) -> Float[np.ndarray, "n n"]:
        """The mean over a subgroup's elements, in float64, exactly symmetric."""
        chosen = list(elements)
        total: np.ndarray = np.zeros(self.of(chosen[0]).shape)
        for g in chosen:
            total += self.of(g)
        total /= len(chosen)
        return (total + total.T) / 2


def group_grams(net: KernelFunction, action: Action, x: np.ndarray, kernel: KernelName, step: Step) -> GroupGrams:
    """Compute `GroupGrams`. Raises InvalidArgumentError unless the kernel is invariant under the action."""
    check_invariant(net, action, x)
    group = action.group
    elements = [g for g in range(group.order) if g <= group.inverse(g)]
    matrices = {}
    for done, g in enumerate(elements, 1):
        moved = None if g == group.identity else np.asarray(action(g, x))
        matrices[g] = np.asarray(getattr(net.kernel(x, moved), kernel))
        step(done, len(elements))
    return GroupGrams(group, matrices)


def check_invariant(net: KernelFunction, action: Action, x: np.ndarray) -> None:
    """Raise InvalidArgumentError unless Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′) is known to hold for all inputs."""
    known = getattr(net, "invariant_under", None)
    if known is None or not known(action, x.shape[1:]):
        raise InvalidArgumentError(
            "net",
            action,
            "a kernel known to be invariant",
            "by its windows, or by invariant_under(action, shape)",
            verb="is not for",
        )


def irrep_blocks(grams: GroupGrams) -> list[np.ndarray]:
    """Σ_q Θ_q(x_i, x_j) ρ(q), Hermitian, rows (i, a) and columns (j, b): one block an irrep, in float64."""
    stacked = np.stack([grams.of(g) for g in range(grams.group.order)], axis=-1).astype(np.float64)
    blocks = []
    for part in GroupFourier(fourier_irreps(grams.group)).forward(stacked):
        n, m, d, _ = part.shape
        block = part.transpose(0, 2, 1, 3).reshape(n * d, m * d)
        blocks.append((block + block.conj().T) / 2)
    return blocks
