"""Opposite and parallel inputs: the angle is π or 0, and must not become the root of a rounding error."""

import itertools
from functools import partial

import numpy as np
import pytest

from equitangents.nn import Abs, Conv, Dense, Erf, Flatten, GlobalAvgPool, LeakyRelu, Relu, Sequential, Sin
from oracles import precise_kernels

PHIS = {
    "relu": (Relu(), 0.0),
    "abs": (Abs(), -1.0),
    "leaky_relu": (LeakyRelu(0.2), 0.2),
    "erf": (Erf(), "erf"),
}
RATIOS = (-1, -1 - 1e-12, -1 - 1e-9, -1 - 1e-6, -1 - 1e-3, 1, 1 + 1e-9, 1 + 1e-3, -3.0, 3.0)


STACKS = [("relu",) * 4, ("abs",) * 4, ("leaky_relu",) * 4, ("erf",) * 4, ("abs", "erf")]
# The reference engine compiles each.
OFTEN = {(("abs", "erf"), 0.0)}


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("engine", "names", "bias"),
    [
        pytest.param(engine, *case, marks=() if engine == "cpu" or tuple(case) in OFTEN else pytest.mark.slow)
        for engine, *case in itertools.product(["cpu", "reference"], STACKS, [0.0, 0.1])
    ],
)
def test_dense_layers_keep_all_digits(names, bias, engine, rng):
    layers = [la for name in names for la in (Dense(1, W_std=1.4, b_std=bias), PHIS[name][0])]
    words = [word for name in names for word in (("dense", 1.4, bias), ("phi", PHIS[name][1]))]
    net, words = Sequential(*layers, Dense(1)), [*words, ("dense", 1.0, 0.0)]
    f = rng.standard_normal(7)
    others = np.stack([ratio * f for ratio in RATIOS])
    found = net.kernel(f[None], others, engine=engine)
    own = precise_kernels.kernels(words, f, f)
    for j, g in enumerate(others):
        for value, expected, scale in zip(
            (found.nngp[0, j], found.ntk[0, j]), precise_kernels.kernels(words, f, g), own, strict=True
        ):
            assert abs(value - expected) <= 1e-12 * scale


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_little_away_from_opposite(engine, rng):
    # The distance from -f drowns in rounding here; what is left is the angle's effect on Θ, at most its own size.
    net = Sequential(Dense(1), Relu(), Dense(1), Relu(), Dense(1))
    words = [("dense", 1.0, 0.0), ("phi", 0.0), ("dense", 1.0, 0.0), ("phi", 0.0), ("dense", 1.0, 0.0)]
    f, noise = rng.standard_normal(7), rng.standard_normal(7)
    for size, tolerance in ((1e-9, 1e-9), (1e-6, 1e-10), (1e-3, 1e-12)):
        g = -f + size * noise
        found = net.kernel(f[None], g[None], engine=engine)
        nngp, ntk = precise_kernels.kernels(words, f, g)
        assert abs(found.nngp[0, 0] - nngp) <= 1e-12
        assert abs(found.ntk[0, 0] - ntk) <= tolerance


@pytest.mark.parametrize("readout", [Flatten(), GlobalAvgPool()], ids=["flatten", "pool"])
@pytest.mark.parametrize("phi", [Relu(), Abs(), LeakyRelu(0.2)], ids=["relu", "abs", "leaky_relu"])
def test_homogeneous_networks_scale_with_their_inputs(readout, phi, rng):
    # Without biases N(c f) = c N(f) for c > 0, so kernels with -f stand in a fixed ratio to those with -c f.
    conv = partial(Conv, 1, 3, W_std=1.4)
    net = Sequential(conv(), phi, conv(padding="circular"), phi, readout, Dense(1))
    f = rng.standard_normal((3, 5, 4, 2))
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-6)):
        x = f.astype(dtype)
        for sign in (-1, 1):
            one, other = net.kernel(x, sign * x), net.kernel(x, 3 * sign * x)
            for a, b in ((one.nngp, other.nngp), (one.ntk, other.ntk)):
                np.testing.assert_allclose(b, 3 * a, atol=tolerance * np.abs(b).max(), rtol=0)


@pytest.mark.parametrize("engine", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
def test_with_one_channel_and_windows_of_one_pixel_every_pair_is_parallel_or_opposite(engine, rng):
    f, g = rng.standard_normal((2, 8, 6, 1))
    product = f[:, None, :, 0] * g[None, :, :, 0]
    once = Sequential(Conv(1, 1), Relu(), Flatten(), Dense(1))
    thrice = Sequential(*(Conv(1, 1), Abs()) * 3, Flatten(), Dense(1))
    cases = ((once, np.maximum(product, 0).mean(-1) / 2, 2), (thrice, np.abs(product).mean(-1), 4))
    for net, nngp, layers in cases:
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-6)):
            found = net.kernel(f.astype(dtype), g.astype(dtype), engine=engine)
            for value, expected in ((found.nngp, nngp), (found.ntk, layers * nngp)):
                np.testing.assert_allclose(value, expected, atol=tolerance * expected.max(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "phi"),
    [("cpu", Erf()), *(pytest.param(*case, marks=pytest.mark.slow) for case in [("cpu", Sin()), ("reference", Erf())])],
)
def test_pools_of_odd_fields_before_a_kink(engine, phi, rng):
    """The pool leaves a small part of the variances, with all their rounding; f(-x) = -f(x), f(moved x) = f(x)."""
    layers = (Conv(1, (3, 3)), phi, Conv(1, (3, 3)), phi, GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    x = rng.standard_normal((3, 11, 11, 2))
    others = np.concatenate([-x, np.roll(x, (2, 5), (1, 2)), -np.roll(x, (4, 1), (1, 2))])
    for dtype, tolerance in ((np.float64, 2e-12), (np.float32, 5e-6)):
        net = Sequential(*layers)
        found = net.kernel(x.astype(dtype), others.astype(dtype), engine=engine)
        own = net.kernel_diagonal(x.astype(dtype), engine=engine)
        for values, scale in ((found.nngp, own.nngp), (found.ntk, own.ntk)):
            opposite, moved, both = (np.diagonal(values, 3 * i) for i in range(3))
            assert np.abs(opposite / scale).max() <= tolerance
            assert np.abs(moved / scale - 1).max() <= tolerance
            assert np.abs(both / scale).max() <= tolerance
