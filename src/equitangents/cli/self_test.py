"""Small computations whose results are known otherwise: by a closed form, or by a law that relates two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Check:
    """One comparison: the largest relative error found and the largest allowed."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the error is a number no larger than allowed."""
        return self.error <= self.allowed


def run_checks() -> list[Check]:
    """Every check, computed now."""
    return [check() for check in CHECKS]


def relative_error(found: ArrayLike, expected: ArrayLike) -> float:
    """Largest deviation in units of the largest expected number; NaN if any is."""
    wanted = np.asarray(expected)
    return float(np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted)))


def two_layer_relu(x: np.ndarray, W_std: float, b_std: float) -> np.ndarray:
    """NNGP and NTK of Dense, Relu, Dense, (2, N, N), by the arc-cosine formulas.

    With K = W² x·x'/d + b² and cos θ = K/√(K_xx K_x'x') the NNGP is W² √(K_xx K_x'x') (sin θ + (π − θ) cos θ)/2π + b²,
    and the NTK W² K (π − θ)/2π more.
    """
    covariance = W_std**2 * x @ x.T / x.shape[1] + b_std**2
    sizes = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    cosine = np.clip(covariance / sizes, -1, 1)
    np.fill_diagonal(cosine, 1.0)
    angle = np.arccos(cosine)
    nngp = W_std**2 * sizes * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi) + b_std**2
    return np.stack([nngp, nngp + W_std**2 * covariance * (np.pi - angle) / (2 * np.pi)])


def _closed_form(dtype: type, allowed: float) -> Check:
    from equitangents import nn

    x = np.random.default_rng(0).standard_normal((6, 5))
    net = nn.Sequential(nn.Dense(8, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1, W_std=1.5, b_std=0.1))
    k = net.kernel(x.astype(dtype))
    errors = [relative_error(*pair) for pair in zip((k.nngp, k.ntk), two_layer_relu(x, 1.5, 0.1), strict=True)]
    return Check(f"ReLU kernels against their closed form, {np.dtype(dtype).name}", float(np.max(errors)), allowed)


def _compiled() -> Check:
    import jax

    from equitangents import nn

    x = np.random.default_rng(4).standard_normal((4, 5)).astype(np.float32)
    net = nn.Sequential(nn.Dense(8, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    found = jax.jit(lambda x: net.kernel(x).ntk)(x)
    return Check("kernels inside compiled JAX programs", relative_error(found, net.kernel(x).ntk), 2e-6)


def _learned() -> Check:
    from equitangents import InfiniteEnsemble, nn

    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    net = nn.Sequential(nn.Dense(8, b_std=0.1), nn.Erf(), nn.Dense(2))
    mean = InfiniteEnsemble(net).fit(x, y).predict(x)
    return Check("an infinite ensemble learns its training data", relative_error(mean, y), 1e-8)


def _trained() -> Check:
    from equitangents import DeepEnsemble, InfiniteEnsemble, nn

    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    net = nn.Sequential(nn.Dense(1, b_std=0.5))
    theory = InfiniteEnsemble(net, dynamics="discrete", learning_rate=0.5, time=20).fit(x, y).predict(x)
    trained = DeepEnsemble(
        net, members=2, zero_output=True, dtype="float64", optimizer="gd", learning_rate=0.5, epochs=20
    ).fit(x, y)
    return Check("20 training steps of a linear network", relative_error(trained.predict(x), theory), 1e-10)


CHECKS: tuple[Callable[[], Check], ...] = (
    lambda: _closed_form(np.float64, 1e-13),
    lambda: _closed_form(np.float32, 2e-6),
    _compiled,
    _learned,
    _trained,
)
