"""Kernels averaged over horizontal flips: Θ̄(x, x′) = (Θ(x, x′) + Θ(x, Fx′))/2, as Θ(Fx, Fx′) = Θ(x, x′).

The same predictor as from training on both copies: with ridge λ here, 2λ there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float

from equitangents import actions, nn
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import KeptKernel, KernelStore, kernel_invariance_error
from equitangents.solvers import solve
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.framework.study import Arrays

KINDS = ("ntk", "nngp")
_INVARIANT = 1e-5  # relative: float32 rounds kernels to about 1e-6
_RIDGE = 1e-3  # of the comparison with both copies, relative to the kernel's mean diagonal


def flip(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width channels"]:
    """Every image with left and right exchanged."""
    return np.ascontiguousarray(x[:, :, ::-1])


def averaged_kernels(
    net: nn.Sequential,
    pool: Float[np.ndarray, "n height width channels"],
    test: Float[np.ndarray, "m height width channels"],
    step: Callable[[float, float], None],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By kind, NTK and NNGP: (Θ̄ of the pool with itself, (N, N), and of test images with it, (M, N)).

    Tiles are kept on disk by content, so that a run that was killed goes on from its last one.
    """
    error = kernel_invariance_error(net, actions.image_dihedral(1), pool[:3])
    if not error <= _INVARIANT:
        raise InvalidArgumentError(f"the kernel is not invariant under flips: relative error {error:.1e}")
    kernel, flipped = KeptKernel(net, KernelStore()), flip(pool)
    columns = kernel.slices(len(pool))
    within = [(a, b) for i, a in enumerate(columns) for b in columns[i:]]
    across = [(a, b) for a in kernel.slices(len(test)) for b in columns]
    inner = {kind: np.empty((len(pool), len(pool)), np.float32) for kind in KINDS}
    outer = {kind: np.empty((len(test), len(pool)), np.float32) for kind in KINDS}
    total = len(within) + len(across)
    for done, (a, b) in enumerate(within, 1):
        for kind, block in _tile(kernel, pool[a], None if a == b else pool[b], flipped[b]).items():
            inner[kind][a, b] = block
            inner[kind][b, a] = block.T
        step(done, total)
    for done, (a, b) in enumerate(across, len(within) + 1):
        for kind, block in _tile(kernel, test[a], pool[b], flipped[b]).items():
            outer[kind][a, b] = block
        step(done, total)
    return {kind: (inner[kind], outer[kind]) for kind in KINDS}


def _tile(kernel: KeptKernel, x: np.ndarray, other: np.ndarray | None, flipped: np.ndarray) -> dict[str, np.ndarray]:
    """The average of both kernels of x, with `other` (None: itself) and with flipped images."""
    plain, moved = kernel.one_tile(x, other)[0], kernel.one_tile(x, flipped)[0]
    return {kind: (np.asarray(getattr(plain, kind)) + np.asarray(getattr(moved, kind))) / 2 for kind in KINDS}


def both_copies(net: nn.Sequential, x: np.ndarray, targets: np.ndarray, test: np.ndarray) -> Arrays:
    """By kind, how far predictions from Θ̄ are from those from training on both copies, relative to the largest."""
    x, test = x.astype(np.float64), test.astype(np.float64)
    twice = np.concatenate([x, flip(x)])
    n = len(x)
    found: Arrays = {}
    inner, outer = net.kernel(twice), net.kernel(test, twice)
    for kind in KINDS:
        K, k = np.asarray(getattr(inner, kind)), np.asarray(getattr(outer, kind))
        trained = partial(solve, ridge_unit=float(np.diagonal(K).mean()), solver="cholesky")
        copied = k @ trained(K, np.concatenate([targets, targets]), ridge=2 * _RIDGE).coefficients
        mean = (K[:n, :n] + K[:n, n:]) / 2
        averaged = (k[:, :n] + k[:, n:]) / 2 @ trained(mean, targets, ridge=_RIDGE).coefficients
        found[kind] = np.array(largest_difference(averaged, copied))
    return found
