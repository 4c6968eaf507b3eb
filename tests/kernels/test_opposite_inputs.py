"""Opposite and parallel inputs: the angle is π or 0, and must not become the root of a rounding error.

A kink behind a smooth nonlinearity reads the small angle that this leaves parallel and opposite inputs. The oracle
computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from functools import partial

import jax
import numpy as np
import pytest

from equitangents import nn, precision
from equitangents.kernels import duals
from equitangents.kernels.engines.reference import run as by_reference
from equitangents.kernels.nearly_parallel import parallel_too
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


PHI = {
    "erf": nn.Erf,
    "gelu": nn.Gelu,
    "sin": nn.Sin,
    "cos": nn.Cos,
    "gaussian": nn.Gaussian,
    "normalised": nn.LayerNorm,
    0.0: nn.Relu,
    -1.0: nn.Abs,
}
BENDING_STACKS = [("erf", 0.0), ("gelu", 0.0), ("sin", -1.0), ("cos", 0.0), ("gaussian", 0.0), (0.0, "erf", 0.0)]
WITHOUT_UNITS = [(0.0, "erf"), (0.0, "gelu"), ("normalised", 0.0), (0.0, "normalised", 0.0), (0.0, "normalised", "erf")]
LIMITS = {np.dtype("float32"): 2e-6, np.dtype("float64"): 1e-13}


def network(phis, W_std, b_std):
    """(The network, its layers as the oracle knows them)."""
    layers = [la for phi in phis for la in (("dense", W_std, b_std), ("phi", phi))] + [("dense", W_std, b_std)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]]() for la in layers)
    return nn.Sequential(*made), layers


def inputs(scale, rng):
    """(x, others): along it and against it, but for a small part, at several ratios of norms, and some other."""
    x, aside = scale * rng.standard_normal((2, 8))
    return x, np.array([r * v for r in (1.1, 3.0) for v in (x, -x, x + 1e-6 * aside, -x + 1e-4 * aside, aside)])


def check(phis, b_std, scale, dtype, engine, rng):
    net, layers = network(phis, 1.4, b_std)
    x, others = (v.astype(dtype) for v in inputs(scale, rng))
    found = net.kernel(x[None], others, engine=engine)
    exact = np.array([precise_kernels.kernels(layers, x, y) for y in others])
    own = np.array([precise_kernels.kernels(layers, v, v) for v in (x, *others)])
    for i, values in enumerate((found.nngp, found.ntk)):
        error = np.abs(np.asarray(values[0], float) - exact[:, i]) / np.sqrt(own[0, i] * own[1:, i])
        assert np.max(error) <= LIMITS[x.dtype], f"off by {np.max(error):.1e}"
    return found


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", [np.float32])
@pytest.mark.parametrize("phis", WITHOUT_UNITS[1:3], ids=str)
def test_a_bias_before_a_kink_leaves_angles_where_there_are_no_units(phis, dtype, rng):
    """Smooth functions and layer normalisation anywhere in the network take its units away."""
    check(phis, 0.003, 1.0, dtype, "cpu", rng)


# Variances before the nonlinearity are of the order of 1e-6 in the first case, where the angle is smallest.
SCALES = [*itertools.product(["cpu", "reference"], [0.003, 0.0, 0.1], [1e-3, 0.1, 1.0])]


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("engine", "b_std", "scale"), SCALES)
@pytest.mark.parametrize("phis", BENDING_STACKS, ids=str)
def test_dense_networks_keep_their_digits_at_all_scales(phis, dtype, engine, b_std, scale, rng):
    check(phis, b_std, scale, dtype, engine, rng)


def test_pairs_are_the_same_in_both_places_and_are_told(rng):
    net, _ = network(("erf", 0.0), 1.4, 0.003)
    x, others = inputs(0.1, rng)
    together = net.kernel(np.concatenate([x[None], others]))
    assert any("in double precision" in note for note in together.notes)
    for values, apart in (
        (together.nngp, net.kernel(x[None], others).nngp),
        (together.ntk, net.kernel(x[None], others).ntk),
    ):
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_allclose(values[:1, 1:], apart, rtol=1e-14)


def test_single_precision_asks_the_reference_engine_for_the_closest_pairs_alone(monkeypatch, rng):
    net = Sequential(Conv(1, (3,), b_std=0.1), Relu(), Conv(1, (3,), b_std=0.1), Relu(), GlobalAvgPool(), Dense(1))
    x, beside = rng.standard_normal((2, 6, 8, 2))
    scaled = np.stack([2 * x[0] + 1e-6 * beside[0], -x[1] + 1e-6 * beside[1], x[2] + 1e-4 * beside[2], 3 * x[3], -x[4]])
    x = np.concatenate([x, scaled]).astype(np.float32)
    exact, asked = net.kernel(x.astype(np.float64), engine="reference"), []
    listed = by_reference.listed
    monkeypatch.setattr(by_reference, "listed", lambda *of: asked.append(len(of[1])) or listed(*of))
    found = net.kernel(x, engine="cpu")
    assert 0 < sum(asked) <= 2  # 3x and -x, whose rounding alone is beside them
    for values, of in ((found.nngp, exact.nngp), (found.ntk, exact.ntk)):
        np.testing.assert_allclose(values, of, rtol=1e-6)


def test_ordinary_inputs_and_other_networks_stay_with_the_engine(rng):
    x = rng.standard_normal((20, 8))
    assert not network(("erf", 0.0), 1.4, 0.1)[0].kernel(x).notes
    for phis, bias in ((("erf", "erf"), 0.1), ((0.0, 0.0), 0.1), ((0.0, "erf"), 0.0), (("normalised", 0.0), 0.0)):
        assert parallel_too(network(phis, 1.4, bias)[0].lower((8,))[1]) is None


def test_the_distance_after_gelu_keeps_its_digits():
    """Its root is off by rounding of the root of the variance."""
    parts, exact, scales = [], [], []
    with localcontext() as context, precision.scope(np.dtype("float64")):
        context.prec = precise_kernels.DIGITS
        ratios, sines = (1.0, 1 + 1e-12, 1 + 1e-6, 1.5, 30.0), (0.0, 1e-20, 1e-10, 1e-3, 0.4, 0.9, 1.0)
        for q, ratio, s in itertools.product((1e-6, 1e-3, 1.0, 50.0), ratios, sines):
            q1, q2 = Decimal(q), Decimal(q * ratio)
            d = float(q1 + q2 - 2 * (q1 * q2).sqrt() * (1 - 2 * Decimal(s)))
            k = (q1 + q2 - Decimal(d)) / 2
            (a, _), (b, _), (c, slope) = (precise_kernels.gelu(*z) for z in ((q1, q1, q1), (q2, q2, q2), (q1, q2, k)))
            parts.append((d, q, q * ratio))
            exact.append((float(max(a + b - 2 * c, Decimal(0)).sqrt()), float(slope)))
            scales.append(float(b.sqrt()))
        found, rate = (np.asarray(v) for v in duals.Gelu().pair(*map(jax.numpy.asarray, np.array(parts).T)))
    roots, slopes = np.array(exact).T
    assert np.max(np.abs(np.sqrt(found) - roots) / scales) <= 3e-15
    assert np.max(np.abs(rate - slopes)) <= 1e-14
