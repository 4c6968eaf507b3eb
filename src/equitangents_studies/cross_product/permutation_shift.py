"""The permutation shift of arXiv 2403.03103: turning a fully augmented training set X only permutes it.

ρ(g)X = Π(g)X, so that kernels with Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′) have Π(g)F = FΠ(g) for every F made of Θ, K and their
inverses on X; the mean and the covariance of the infinitely wide ensemble are such F between kernels to X.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from equitangents.groups import Group

FUNCTIONS = ("(1 − ηΘ/N)^t", "Θ⁻¹(1 − (1 − ηΘ/N)^t)", "Θ⁻¹K", "K⁻¹Θ", "ΘK⁻¹Θ⁻¹", "middle of Σ_t")


def functions_of_kernels(
    ntk: Float[np.ndarray, "n n"], nngp: Float[np.ndarray, "n n"], rate: float, step: int
) -> dict[str, Float[np.ndarray, "n n"]]:
    """F(Θ, Θ⁻¹, K, K⁻¹) of six kinds, after `step` of gradient descent; AKAᵀ with A the second of them is Σ_t's."""
    one = np.eye(len(ntk))
    decay = np.linalg.matrix_power(one - rate / len(ntk) * ntk, step)
    learnt = np.linalg.solve(ntk, one - decay)
    mixed = ntk @ np.linalg.solve(nngp, np.linalg.inv(ntk))
    found = (decay, learnt, np.linalg.solve(ntk, nngp), np.linalg.solve(nngp, ntk), mixed, learnt @ nngp @ learnt.T)
    return dict(zip(FUNCTIONS, found, strict=True))


def shifts(group: Group, inputs: int) -> Int[np.ndarray, "order order_n"]:
    """Π(g) as where each of the |G|·N inputs of an `orbit_batch` goes, for every g."""
    return (np.asarray(group.table)[:, :, None] * inputs + np.arange(inputs)).reshape(group.order, -1)


def largest_change(
    matrices: Mapping[str, Float[np.ndarray, "n n"]], permutations: Int[np.ndarray, "count n"]
) -> Float[np.ndarray, " matrices"]:
    """max |ΠFΠᵀ − F| / max |F| over permutations, of every F; of F = 0 it is 0."""
    off = lambda f: np.max([np.abs(f[np.ix_(p, p)] - f).max() for p in permutations])
    size = lambda f: np.abs(f).max() or 1.0
    return np.array([off(f) / size(f) for f in matrices.values()])
