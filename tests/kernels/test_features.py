"""Where the first nonlinearity sees few numbers, the CPU engine computes in double precision, whatever it is given."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.kernels import cost
from equitangents.kernels.engines.cpu.activations import computed_in_double, features
from equitangents.kernels.plans.plan import plan
from equitangents.nn import Conv, Dense, Flatten, GlobalAvgPool, Lift, Relu, Residual, Sequential

IMAGES = et.actions.image_rotations(4)
HEAD = (Flatten(), Dense(1))


def steps(net: Sequential, shape: tuple[int, ...]):
    return plan(net.lower(shape)[1])


@pytest.mark.parametrize(
    ("layers", "shape", "expected"),
    [
        ((Dense(1), Relu(), Dense(1)), (3,), 3),
        ((Conv(1, (3, 3)), Relu(), *HEAD), (8, 8, 1), 9),
        ((Conv(1, (3, 3)), Relu(), *HEAD), (8, 2, 2), 12),
        ((Conv(1, (2, 1)), Conv(1, (1, 3)), Relu(), *HEAD), (8, 8, 1), 6),
        ((Conv(1, (5, 5)), Conv(1, (5, 5)), Relu(), *HEAD), (3, 3, 1), 9),
        ((Residual(Conv(2, (1, 2)), Relu()), *HEAD), (4, 4, 2), 4),
        ((Conv(1, (1, 1)), Flatten(), Dense(1), Relu(), Dense(1)), (4, 4, 1), 16),
        ((Conv(1, (1, 1)), GlobalAvgPool(), Dense(1), Relu(), Dense(1)), (4, 4, 3), 3),
        ((Lift(IMAGES, 1, window="full"), Relu(), *HEAD), (4, 4, 1), 16),
    ],
)
def test_features_of_the_first_nonlinearity(layers, shape, expected) -> None:
    found = steps(Sequential(*layers), shape)
    assert features(found, shape[-1]) == expected
    assert computed_in_double(found, shape[-1]) == (expected <= 4)


@pytest.mark.parametrize("shape", [pytest.param((2,), marks=pytest.mark.slow), (3, 3, 1)])
def test_single_precision_is_double_precision_rounded(shape: tuple[int, ...]) -> None:
    layers = (Dense(1),) if len(shape) == 1 else (Conv(1, (1, 2), W_std=1.3),)
    net = Sequential(*layers, Relu(), Dense(1), Relu(), *HEAD[len(shape) == 1 :])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, *shape)).astype(np.float32)
    y = np.concatenate([-1.7 * x[:40] + 1e-4 * rng.normal(size=(40, *shape)), 0.3 * x[40:]]).astype(np.float32)
    exact = net.kernel(x.astype(float), y.astype(float))
    found = net.kernel(x, y)
    traced = jax.jit(lambda a, b: (net.kernel(a, b).nngp, net.kernel(a, b).ntk))(x, y)
    assert found.engine == "cpu"
    for single in ((found.nngp, found.ntk), traced):
        for value, expected in zip(single, (exact.nngp, exact.ntk), strict=True):
            assert value.dtype == np.float32
            np.testing.assert_array_equal(np.asarray(value), expected.astype(np.float32))
    own = net.kernel(x)
    np.testing.assert_array_equal(own.ntk, net.kernel(x.astype(float)).ntk.astype(np.float32))
    np.testing.assert_array_equal(net.kernel_diagonal(x).ntk, np.diag(own.ntk))


def test_memory_is_that_of_double_precision(monkeypatch) -> None:
    """And seconds are measured, with inputs in single precision as the kernels get them."""
    timed = []
    monkeypatch.setattr(cost, "pair_seconds", lambda run, shape, dtype, work: (timed.append(dtype), (1e-9, 1.0))[1])
    for window, in_double in ((1, True), (3, False)):
        net = Sequential(Conv(1, (window, window)), Relu(), GlobalAvgPool(), Dense(1))
        single, double = (net.kernel_cost((16, 16, 1), 100, dtype=dtype) for dtype in ("float32", "float64"))
        assert (single.working_bytes >= double.working_bytes) == in_double
        assert single.output_bytes == double.output_bytes / 2
    assert timed == ["float32", "float64"] * 2
