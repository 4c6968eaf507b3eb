"""Parallel and opposite inputs at any ratio of norms, and nearly such: no angle is the root of a rounding error.

Biases, and smooth functions before a kink, leave such inputs a small angle, of which no digit is lost. The oracle
computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import Masked, nn, precision
from equitangents.kernels import duals
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.runs.programs import parallel_too
from kernels.comparison import assert_within
from laws.networks import dense
from oracles import precise_kernels

KINKS = {0.0: nn.Relu(), 0.2: nn.LeakyRelu(0.2), -1.0: nn.Abs()}
SMOOTH = {"erf": nn.Erf(), "gelu": nn.Gelu(), "sin": nn.Sin(), "cos": nn.Cos(), "gaussian": nn.Gaussian()}
PHI = KINKS | SMOOTH | {"normalised": nn.LayerNorm()}
KINKED = [(0.0,), (0.0,) * 3, (0.0,) * 5, (-1.0, 0.0), (-1.0,) * 4, (0.2,) * 3, (0.0,) * 20]
BENDING = [("erf", 0.0), ("gelu", 0.0), ("sin", -1.0), ("cos", 0.0), ("gaussian", 0.0), (0.0, "erf", 0.0)]
BENDING += [("erf",) * 4, (-1.0, "erf")]
FLOATS = [np.float32, np.float64]
ENGINES = [pytest.param("reference", marks=pytest.mark.slow), "cpu"]  # the reference engine compiles each
W_STD = 1.4


def listed(phis, bias):
    """Layers of the oracle."""
    return [la for phi in phis for la in (("dense", W_STD, bias), ("phi", phi))] + [("dense", W_STD, bias)]


def limit(phis, dtype):
    return 1e-13 if dtype == np.float64 else 5e-7 if set(phis) <= set(KINKS) else 2e-6


def inputs(phis, scale, rng):
    """(x, others): along x but for a small part, both ways, at several ratios of norms, and one at a right angle."""
    x, aside = scale * rng.standard_normal((2, 8))
    if not set(phis) <= set(KINKS):
        return x, np.array([r * v for r in (1.1, 3.0) for v in (x, -x, x + 1e-6 * aside, -x + 1e-4 * aside, aside)])
    aside -= x * (x @ aside) / (x @ x)
    close = [c * x + s * aside for c in (1, -1) for s in (0.0, 1e-8, 1e-4, 1e-2)]
    others = [r * v for r in (1.0, 1 + 1e-7, 1.1, 3.0, 255.0, 1e4) for v in (*close, aside)]
    return x, np.array(others[:: 1 if len(phis) < 20 else 7])


def check(layers, x, others, engine, limit, net=None):
    found = (net or dense(layers, PHI)).kernel(x[None], others, engine=engine)
    pair = lambda f, g: precise_kernels.kernels(layers, f, g)
    exact = np.array([[pair(x, y) for y in others]])
    assert_within(limit, found, exact, np.array([pair(x, x)]), np.array([pair(y, y) for y in others]))


def check_dense(phis, bias, scale, dtype, engine, seed=0):
    x, others = (v.astype(dtype) for v in inputs(phis, scale, np.random.default_rng(seed)))
    check(listed(phis, bias), x, others, engine, limit(phis, dtype))


@pytest.mark.parametrize(
    ("phis", "bias", "scale", "dtype", "engine"),
    [
        ((0.0,) * 3, 0.0, 1.0, np.float32, "cpu"),
        ((0.0,) * 3, 0.003, 1.0, np.float64, "cpu"),
        ((-1.0, 0.0), 0.1, 1.0, np.float64, "cpu"),
        ((-1.0,) * 4, 1.0, 1.0, np.float32, "cpu"),
        ((0.0,) * 20, 0.1, 1.0, np.float32, "cpu"),
        (("erf",) * 4, 0.0, 1.0, np.float64, "cpu"),
        (("erf", 0.0), 0.0, 1e-3, np.float64, "cpu"),
        ((-1.0, "erf"), 0.0, 1e-3, np.float64, "cpu"),
        (("sin", -1.0), 0.0, 1e-3, np.float64, "cpu"),
        (("sin", -1.0), 0.1, 1.0, np.float32, "cpu"),
        # Layer normalisation and smooth functions behind a kink take the network's units away.
        ((0.0, "gelu"), 0.003, 1.0, np.float32, "cpu"),
        (("normalised", 0.0), 0.003, 1.0, np.float32, "cpu"),
        ((-1.0, "erf"), 0.0, 1.0, np.float64, "reference"),
    ],
)
def test_dense_networks(phis, bias, scale, dtype, engine):
    check_dense(phis, bias, scale, dtype, engine)


OF_KINKED = st.tuples(st.sampled_from(KINKED), st.sampled_from([0.0, 0.003, 0.1, 1.0]), st.just(1.0))
# Variances before the nonlinearity are of the order of 1e-6 where the angle is smallest.
OF_BENDING = st.tuples(st.sampled_from(BENDING), st.sampled_from([0.003, 0.0, 0.1]), st.sampled_from([1e-3, 0.1, 1.0]))


@pytest.mark.slow
@given(OF_KINKED | OF_BENDING, st.sampled_from(FLOATS), st.sampled_from(["cpu", "cpu", "reference"]), st.integers(0, 9))
@settings(max_examples=100)
def test_many_dense_networks(case, dtype, engine, seed):
    check_dense(*case, dtype, engine, seed)


def test_opposite_inputs_of_very_different_norm_are_as_exact_as_parallel_ones(rng):
    x, aside = rng.standard_normal((2, 8))
    others = np.array([r * (s * aside - x) for r in (30.0, 1e3, 1e6) for s in (0.0, 1e-8, 1e-5, 1e-3)])
    check(listed((-1.0, 0.0), 1e-3), x, others, "cpu", 1e-14)


@pytest.mark.parametrize("engine", ENGINES)
def test_with_one_channel_and_windows_of_one_pixel_every_pair_is_parallel_or_opposite(engine, rng):
    f, g = rng.standard_normal((2, 8, 6, 1))
    product = f[:, None, :, 0] * g[None, :, :, 0]
    once = nn.Sequential(nn.Conv(1, 1), nn.Relu(), nn.Flatten(), nn.Dense(1))
    thrice = nn.Sequential(*(nn.Conv(1, 1), nn.Abs()) * 3, nn.Flatten(), nn.Dense(1))
    cases = ((once, np.maximum(product, 0).mean(-1) / 2, 2), (thrice, np.abs(product).mean(-1), 4))
    for (net, nngp, layers), (dtype, tolerance) in itertools.product(cases, ((np.float64, 1e-12), (np.float32, 2e-6))):
        found = net.kernel(f.astype(dtype), g.astype(dtype), engine=engine)
        for value, expected in ((found.nngp, nngp), (found.ntk, layers * nngp)):
            np.testing.assert_allclose(value, expected, atol=tolerance * expected.max(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "phi"), [("cpu", nn.Erf()), ("cpu", nn.Sin()), ("reference", nn.Erf())])
def test_pools_of_odd_fields_before_a_kink(engine, phi, rng):
    """The pool leaves a small part of the variances, with all their rounding; f(-x) = -f(x), f(moved x) = f(x)."""
    layers = (nn.Conv(1, 3), phi, nn.Conv(1, 3), phi, nn.GlobalAvgPool(), nn.Dense(1), nn.Relu(), nn.Dense(1))
    x, net = rng.standard_normal((3, 11, 11, 2)), nn.Sequential(*layers)
    others = np.concatenate([-x, np.roll(x, (2, 5), (1, 2)), -np.roll(x, (4, 1), (1, 2))])
    for dtype, tolerance in ((np.float64, 2e-12), (np.float32, 5e-6)):
        found = net.kernel(x.astype(dtype), others.astype(dtype), engine=engine)
        own = net.kernel_diagonal(x.astype(dtype), engine=engine)
        for values, scale in ((found.nngp, own.nngp), (found.ntk, own.ntk)):
            for i, expected in enumerate((0, 1, 0)):  # opposite, moved, both
                assert np.max(np.abs(np.diagonal(values, 3 * i) / scale - expected)) <= tolerance


def test_pairs_are_the_same_in_both_places_and_are_told(rng):
    net = dense(listed(("erf", 0.0), 0.003), PHI)
    x, others = inputs(("erf", 0.0), 0.1, rng)
    together, difference = net.kernel(np.concatenate([x[None], others])), net.kernel(x[None], others)
    assert any("in double precision" in note for note in together.notes)
    for values, part in ((together.nngp, difference.nngp), (together.ntk, difference.ntk)):
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_allclose(values[:1, 1:], part, rtol=1e-14)


def test_single_precision_asks_the_reference_engine_for_the_closest_pairs_alone(monkeypatch, rng):
    conv = nn.Conv(1, (3,), b_std=0.1)
    net = nn.Sequential(conv, nn.Relu(), conv, nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    x, beside = rng.standard_normal((2, 6, 8, 2))
    scaled = np.stack([2 * x[0] + 1e-6 * beside[0], -x[1] + 1e-6 * beside[1], x[2] + 1e-4 * beside[2], 3 * x[3], -x[4]])
    x = np.concatenate([x, scaled]).astype(np.float32)
    exact, asked = net.kernel(x.astype(np.float64), engine="reference"), []
    listed = REFERENCE.listed
    monkeypatch.setattr(REFERENCE, "listed", lambda *of: asked.append(len(of[1])) or listed(*of))
    found = net.kernel(x, engine="cpu")
    assert 0 < sum(asked) <= 2  # 3x and -x, whose rounding alone is beside them
    for values, of in ((found.nngp, exact.nngp), (found.ntk, exact.ntk)):
        np.testing.assert_allclose(values, of, rtol=1e-6)


def test_ordinary_inputs_and_other_networks_stay_with_the_engine(rng):
    assert not dense(listed(("erf", 0.0), 0.1), PHI).kernel(rng.standard_normal((20, 8))).notes
    for phis, bias in ((("erf", "erf"), 0.1), ((0.0, 0.0), 0.1), (("normalised", 0.0), 0.0)):
        assert parallel_too(dense(listed(phis, bias), PHI).lower((8,))[1]) is None
    assert parallel_too(dense(listed((0.0, "erf"), 0.0), PHI).lower((8,))[1])


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
        found, rate = (np.asarray(v) for v in duals.GeluDual().pair(*map(jax.numpy.asarray, np.array(parts).T)))
    roots, slopes = np.array(exact).T
    assert np.max(np.abs(np.sqrt(found) - roots) / scales) <= 3e-15
    assert np.max(np.abs(rate - slopes)) <= 1e-14


SIGNALS = [(0.0, "normalised", 0.0), (0.0, "gelu", 0.0), (-1.0, 0.0), ("normalised", 0.0), (0.0, "erf"), ("erf", 0.0)]
# One unit for all positions: where norms differ from those of the whole, of nearly equal parts it holds the rest. The
# reference engine has one for each pair of positions.
OF_SIGNALS = {
    ("cpu", "float32"): 2e-6,
    ("cpu", "float64"): 2e-12,
    ("reference", "float32"): 5e-7,
    ("reference", "float64"): 1e-14,
}


def check_signals(phis, bias, pooled, x, others, engine, limit=None):
    """Convolutions of windows of 3 inside the signals, with a function behind each."""
    conv = nn.Conv(1, 3, W_std=W_STD, b_std=bias, padding="valid")
    layers = [la for phi in phis for la in (conv, PHI[phi])]
    net = nn.Sequential(*layers, nn.GlobalAvgPool() if pooled else nn.Flatten())
    pair = lambda f, g: precise_kernels.of_signals(phis, f, g, W_STD, bias, 3, pooled)
    exact, own = np.array([[pair(x, y) for y in others]]), [np.array([pair(v, v) for v in vs]) for vs in ([x], others)]
    assert_within(limit or OF_SIGNALS[engine, x.dtype.name], net.kernel(x[None], others, engine=engine), exact, *own)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bias", [0.003, 0.1, 1.0])
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_contrast_copies_of_signals_with_dark_places(dtype, limit, bias, engine, rng):
    """The ratio of two images' local norms is that of the images, or 1 where both are black."""
    x = rng.integers(0, 256, (16, 3)) * (rng.random((16, 1)) < 0.5)
    x[:6] = 0
    copies = np.array([c * x for c in (1.0, 0.3, 0.9)]).astype(dtype)
    for one in copies[:2]:
        check_signals((0.0,) * 3, bias, False, one, copies, engine, limit)


@pytest.mark.quick(1)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("phis", "bias", "pooled", "dtype"),
    [pytest.param(*case, marks=() if i < 3 else pytest.mark.slow) for i, case in enumerate(
        (phis, bias, pooled, dtype) for dtype in FLOATS for bias in (0.003, 0.1)
        for pooled in (False, True) for phis in SIGNALS)],
    ids=str,
)  # fmt: skip
def test_parallel_and_opposite_signals(phis, bias, pooled, dtype, engine, rng):
    """Also behind layer normalisation and smooth functions; opposite signals have the distance of f and -g."""
    x, aside = rng.standard_normal((2, 8, 4))
    others = [r * v for r in (1.0, 1.1, 3.0) for v in (x, -x, x + 1e-6 * aside, -x + 1e-4 * aside, aside)]
    x = x.copy()
    x[0] = 0
    check_signals(phis, bias, pooled, x.astype(dtype), np.array(others).astype(dtype), engine)


@pytest.mark.quick(1)
@pytest.mark.parametrize("phis", SIGNALS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pooled", [False, True])
def test_parts_of_signals_that_are_parallel_or_opposite_at_norms_of_their_own(phis, pooled, dtype, rng):
    """By the reference engine, which carries the angle of each pair of positions."""
    x = rng.standard_normal((9, 4))
    x[5:] = -3 * x[:4]
    others = np.array([np.linspace(0.1, 3, 9)[:, None] * x, -x, 2 * x])
    others[2, 5:] += 1e-6 * rng.standard_normal((4, 4))
    x[2] = 0
    check_signals(phis, 0.003, pooled, x.astype(dtype), others.astype(dtype), "reference")


@pytest.mark.slow
def test_parallel_inputs_under_masks_too(rng):
    """By the reference engine; what acts at each position knows one of them."""
    layers = listed((0.0, "erf", 0.0), 0.003)[:-1]
    net = nn.Sequential(*dense(layers, PHI).layers, nn.GlobalAvgPool())
    x, others = inputs((0.0,), 1.0, rng)
    others = others[others @ x > 0]

    class Lone:
        """One position of each input is there."""

        def kernel(self, *both, engine):
            signals = (np.stack([v, rng.standard_normal(v.shape)], axis=1) for v in both)
            return net.kernel(*(Masked(v, np.tile([True, False], (len(v), 1))) for v in signals), engine=engine)

    check(layers, x, others, "reference", 1e-14, Lone())
