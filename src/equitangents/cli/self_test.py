"""Small computations whose results are known otherwise: by a closed form, or by a law that relates two of them."""

from __future__ import annotations

import math
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
    """Largest deviation in units of the largest expected number."""
    wanted = np.asarray(expected)
    return float(np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted)))


def _largest(*errors: float) -> float:
    """NaN if any is: Python's `max(1e-13, nan)` is 1e-13."""
    return float(np.max(errors))


def _two_layer_relu(x: np.ndarray, W_std: float, b_std: float) -> tuple[np.ndarray, np.ndarray]:
    """NNGP and NTK of Dense, Relu, Dense, by the arc-cosine formulas in plain floats."""
    covariance = W_std**2 * x @ x.T / x.shape[1] + b_std**2
    nngp, ntk = np.empty_like(covariance), np.empty_like(covariance)
    for (i, j), xy in np.ndenumerate(covariance):
        xx, yy = covariance[i, i], covariance[j, j]
        angle = 0.0 if i == j else math.acos(xy / math.sqrt(xx * yy))
        value = math.sqrt(xx * yy) * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
        slope = (math.pi - angle) / (2 * math.pi)
        nngp[i, j] = W_std**2 * value + b_std**2
        ntk[i, j] = nngp[i, j] + W_std**2 * xy * slope
    return nngp, ntk


def _closed_form(dtype: type, allowed: float) -> Check:
    from equitangents import nn

    x = np.random.default_rng(0).standard_normal((6, 5))
    net = nn.Sequential(nn.Dense(8, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1, W_std=1.5, b_std=0.1))
    kernels = net.kernel(x.astype(dtype))
    expected = _two_layer_relu(x, 1.5, 0.1)
    error = _largest(relative_error(kernels.nngp, expected[0]), relative_error(kernels.ntk, expected[1]))
    return Check(f"ReLU kernels against their closed form, {np.dtype(dtype).name}", error, allowed)


def _compiled_programs_have_the_same_kernels() -> Check:
    import jax

    from equitangents import nn

    x = np.random.default_rng(4).standard_normal((4, 5)).astype(np.float32)
    net = nn.Sequential(nn.Dense(8, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    found = jax.jit(lambda x: net.kernel(x).ntk)(x)
    return Check("kernels inside compiled JAX programs", relative_error(found, net.kernel(x).ntk), 2e-6)


def _pool_is_orbit_average() -> Check:
    from equitangents import actions, groups, kernels, nn

    group = groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
    x = np.random.default_rng(1).standard_normal((3, 3, 3, 2))

    def net(*readout: nn.Layer) -> nn.Sequential:
        hidden = (nn.Lift(group, 8, window=(3, 1)), nn.Relu(), nn.GroupConv(8, window=(2, 2)), nn.Erf())
        return nn.Sequential(*hidden, *readout, nn.Dense(1))

    pooled = net(nn.GroupPool()).kernel(x)
    averaged = kernels.orbit_average(net(nn.Flatten()), actions.grid(group)).kernel(x)
    error = _largest(relative_error(pooled.nngp, averaged.nngp), relative_error(pooled.ntk, averaged.ntk))
    return Check("group pooling is the orbit average of flattening", error, 1e-12)


def _training_data_are_learned() -> Check:
    from equitangents import InfiniteEnsemble, nn

    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    net = nn.Sequential(nn.Dense(8, b_std=0.1), nn.Erf(), nn.Dense(2))
    mean = InfiniteEnsemble(net).fit(x, y).predict(x)
    return Check("an infinite ensemble learns its training data", relative_error(mean, y), 1e-8)


def _linear_networks_train_as_in_theory() -> Check:
    from equitangents import DeepEnsemble, InfiniteEnsemble, nn

    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    net = nn.Sequential(nn.Dense(1, b_std=0.5))
    theory = InfiniteEnsemble(net, dynamics="discrete", learning_rate=0.5, time=20).fit(x, y).predict(x)
    trained = DeepEnsemble(
        net, members=2, optimizer="gd", learning_rate=0.5, epochs=20, zero_output=True, dtype="float64"
    ).fit(x, y)
    return Check("20 training steps of a linear network", relative_error(trained.predict(x), theory), 1e-10)


CHECKS: tuple[Callable[[], Check], ...] = (
    lambda: _closed_form(np.float64, 1e-13),
    lambda: _closed_form(np.float32, 2e-6),
    _compiled_programs_have_the_same_kernels,
    _pool_is_orbit_average,
    _training_data_are_learned,
    _linear_networks_train_as_in_theory,
)
