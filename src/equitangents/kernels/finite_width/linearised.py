"""The law of linearised networks of finite width after training, to first order in 1/width.

f_t(x) = f_0(x) + Ĝ (Y − f_0(X)),  Ĝ = Θ̂(x, X) φ_t(Θ̂(X, X)),  with the tangent kernel Θ̂ = Θ + δ of each network. To
second order in δ, Ĝ = G + G₁[δ] + G₂[δ, δ]; with L f = f(x) − G f(X),
    Cov f_t = L (K + K₁) Lᵀ − E[G₁[δ] f_0(X) (L f_0)ᵀ] − h.c. + E[G₁[δ] K G₁[δ]ᵀ] − E[G₂[δ, δ]] K(X,·) Lᵀ − h.c.
              + Cov(G₁[δ] Y),
    E f_t = (G + G₁[Θ₁] + E G₂[δ, δ]) Y,
from E[δ] = Θ₁, E[δ δ] and E[f_0 f_0 δ], which the recursion carries. What the tangent kernel's own movement adds is of
the same order, and not in here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.linalg

from equitangents._types import ArrayLike, Network
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels.finite_width.blocks import Blocks, LinearBlock, blocks_of
from equitangents.kernels.finite_width.recursion import State, propagated
from equitangents.memory import check_fits
from equitangents.validation import check_array

_TENSORS = 40  # of (points)⁴ numbers that are held at once


@dataclass(frozen=True)
class LinearisedLaw:
    """Mean (T,) and covariance (T, T) of one output of trained linearised networks at T inputs.

    mean, covariance: to first order in 1/width. limit_mean, limit_covariance: μ_t and Σ_t of infinite width.
    """

    mean: np.ndarray
    covariance: np.ndarray
    limit_mean: np.ndarray
    limit_covariance: np.ndarray


def linearised(
    net: Network,
    x_train: ArrayLike,
    y: ArrayLike,
    x: ArrayLike,
    time: float = np.inf,
    *,
    draws: int = 16384,
    seed: int = 0,
) -> LinearisedLaw:
    """The law at `x` of networks of the net's own widths, linearised and trained on (x_train, y) for `time`.

    Training is gradient flow on Σ (f − y)²/2, that is η = N: at infinite time any flow. `net` is dense, with one
    output. `time` 0 gives the law of initial networks. Expectations of four values are means over `draws` quasi-random
    draws from `seed`; memory grows as the fourth power of the number of all inputs, which is to be small: for tests
    and for studies.

    Errors: InvalidTypeError and NetworkError as `finite_width` has them; ShapeError where y does not fit;
    MemoryLimitError.
    """
    if not (hasattr(net, "layers") and hasattr(net, "signals")):
        raise InvalidTypeError("net", net, "nn.Sequential")
    train = np.asarray(check_array("x_train", x_train, min_rank=2), np.float64)
    test = np.asarray(check_array("x", x, min_rank=2), np.float64)
    targets = np.asarray(y, np.float64).ravel()
    if len(targets) != len(train):
        raise ShapeError("y", targets.size, len(train), "give one number for each input in x_train", verb="has size")
    return _law(_moments(net, np.concatenate([train, test]), draws, seed), targets, time)


@dataclass(frozen=True)
class _Moments:
    """Means over networks at m inputs: K, Θ, their corrections (m, m); E δδ and the connected E f f δ, (m, m, m, m)."""

    nngp: np.ndarray
    ntk: np.ndarray
    nngp_correction: np.ndarray
    ntk_correction: np.ndarray
    square: np.ndarray
    mixed: np.ndarray


def _moments(net: Any, points: np.ndarray, draws: int, seed: int) -> _Moments:
    """Inputs are laid out as positions of two inputs that share all weights, as positions of 1 × 1 windows do."""
    blocks = blocks_of(net, points.shape[1:])
    if any(block.slots.shape[1:] != (1, 1) for block in blocks.linear) or blocks.outputs != 1:
        raise NetworkError("outputs", blocks.outputs, "1, of a dense network", verb="number")
    m = len(points)
    half = -(-m // 2)
    check_fits(f"first-order statistics of {m} inputs together", 8 * _TENSORS * (2 * half) ** 4, "take fewer inputs")
    features = blocks.features(points)[:, 0]
    features = np.concatenate([features, features[: 2 * half - m]])
    beside = replace(blocks, linear=tuple(_side_by_side(b, half) for b in blocks.linear), ends=half)
    state = propagated(beside, features.reshape((1, 2, half, -1)), draws, seed)
    return _by_point(state, beside, half, m)


def _side_by_side(block: LinearBlock, count: int) -> LinearBlock:
    """A dense layer on `count` inputs at once."""
    return LinearBlock(block.slots * np.eye(count), np.broadcast_to(block.bias, (count, count)).copy(), block.width)


def _by_point(state: State, blocks: Blocks, half: int, m: int) -> _Moments:
    """Tensors over pairs of sites, (4Q, 4Q), as tensors over inputs, (m, m, m, m)."""
    pairs = blocks.pairs[-1]
    rows = np.array([(a * half + p, b * half + q) for a in (0, 1) for b in (0, 1) for p, q in pairs])
    kept = np.flatnonzero((rows < m).all(axis=1))
    at = rows[kept]
    vector = lambda v: _placed(v[0][kept], at, m)
    tensor = lambda t: _placed(_placed(t[0][np.ix_(kept, kept)], at, m).reshape(m * m, -1).T, at, m)
    ordered = lambda t: tensor(t).reshape(m, m, m, m).transpose(2, 3, 0, 1)
    a, b, d, f = (ordered(t) for t in (state.a, state.b, state.d, state.f))
    field = lambda v: v[0].transpose(0, 2, 1, 3).reshape(2 * half, 2 * half)[:m, :m]
    square = a + np.einsum("acbd->abcd", b) + np.einsum("adbc->abcd", b)
    mixed = d + np.einsum("ecfd->efcd", f) + np.einsum("edfc->efcd", f)
    kernel, tangent = field(state.kernel), field(state.tangent)
    return _Moments(kernel, tangent, vector(state.nngp), vector(state.ntk), square, mixed)


def _placed(values: np.ndarray, at: np.ndarray, m: int) -> np.ndarray:
    """Rows of values by pairs of inputs, as (m, m, …)."""
    out = np.empty((m, m, *values.shape[1:]))
    out[at[:, 0], at[:, 1]] = values
    return out


def _law(of: _Moments, y: np.ndarray, time: float) -> LinearisedLaw:
    n, m = len(y), len(of.ntk)
    first, second, phi = _response(of.ntk[:n, :n], time)
    cross = of.ntk[n:, :n]
    g = cross @ phi
    left = np.concatenate([-g, np.eye(m - n)], axis=1)

    def g1(delta: np.ndarray) -> np.ndarray:
        """G₁[δ], (…, T, N), of δ (…, m, m)."""
        return np.asarray(delta[..., n:, :n] @ phi + cross @ first(delta[..., :n, :n]))

    def g2(delta: np.ndarray) -> np.ndarray:
        return np.asarray(delta[..., n:, :n] @ first(delta[..., :n, :n]) + cross @ second(delta[..., :n, :n]))

    values, vectors = np.linalg.eigh(_symmetric(of.square.reshape(m * m, m * m)))
    modes = vectors.T.reshape(-1, m, m)
    moved, twice = g1(modes), np.einsum("r,rtn->tn", values, g2(modes))
    k = of.nngp
    mixed = g1(of.mixed + np.einsum("ab,cd->abcd", k, of.ntk_correction))  # of each pair (a, b): (m, m, T, N)
    once = -np.einsum("abta,sb->ts", mixed[:n], left)
    once -= twice @ k[:n] @ left.T
    change = left @ of.nngp_correction @ left.T + once + once.T
    change += np.einsum("r,rtn,nl,rsl->ts", values, moved, k[:n, :n], moved)
    change += np.einsum("r,rt,rs->ts", values, moved @ y, moved @ y)
    limit, mean = left @ k @ left.T, g @ y
    return LinearisedLaw(mean + (g1(of.ntk_correction) + twice) @ y, limit + change, mean, limit)


def _symmetric(a: np.ndarray) -> np.ndarray:
    return (a + a.T) / 2


Directional = Callable[[np.ndarray], np.ndarray]


def _response(theta: np.ndarray, time: float) -> tuple[Directional, Directional, np.ndarray]:
    """φ_t'[δ] and φ_t''[δ, δ]/2 at Θ as functions of δ (…, N, N), and φ_t(Θ) itself, by divided differences."""
    values, v = np.linalg.eigh(theta)
    n = len(values)
    one, two = np.empty((n, n)), np.empty((n, n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                chain = np.diag(values[[i, j, k]]) + np.diag([1.0, 1.0], 1)
                phi = _of_matrix(chain, time)
                one[i, j], two[i, j, k] = phi[0, 1], phi[0, 2]
    back = lambda a: v @ a @ v.T
    into = lambda a: v.T @ a @ v
    first = lambda d: back(one * into(d))
    second = lambda d: back(np.einsum("ijk,...ij,...jk->...ik", two, into(d), into(d)))
    return cast(Directional, first), cast(Directional, second), back(np.diag(_of_values(values, time)))


def _of_values(values: np.ndarray, time: float) -> np.ndarray:
    return np.asarray(1 / values if np.isinf(time) else -np.expm1(-values * time) / values)


def _of_matrix(a: np.ndarray, time: float) -> np.ndarray:
    """A⁻¹(1 − e^{−At}) of a triangular matrix: the corner of an exponential, so that no root is divided by."""
    size = len(a)
    if np.isinf(time):
        return np.asarray(scipy.linalg.inv(a))
    block = np.zeros((2 * size, 2 * size))
    block[:size, :size], block[:size, size:] = -a * time, time * np.eye(size)
    return np.asarray(scipy.linalg.expm(block)[:size, size:])


__all__ = ["LinearisedLaw", "linearised"]
