"""A kink behind a smooth nonlinearity reads the small angle that this leaves parallel and opposite inputs.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import jax
import numpy as np
import pytest

from equitangents import nn, precision
from equitangents.kernels import duals
from equitangents.kernels.nearly_parallel import parallel_too
from oracles import precise_kernels

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
STACKS = [("erf", 0.0), ("gelu", 0.0), ("sin", -1.0), ("cos", 0.0), ("gaussian", 0.0), (0.0, "erf", 0.0)]
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


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("phis", STACKS, ids=str)
def test_dense_networks_keep_their_digits(phis, dtype, rng):
    """Variances before the nonlinearity are of the order of 1e-6, where the angle is smallest."""
    check(phis, 0.003, 1e-3, dtype, "cpu", rng)


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", [np.float32])
@pytest.mark.parametrize("phis", WITHOUT_UNITS[1:3], ids=str)
def test_a_bias_before_a_kink_leaves_angles_where_there_are_no_units(phis, dtype, rng):
    """Smooth functions and layer normalisation anywhere in the network take its units away."""
    check(phis, 0.003, 1.0, dtype, "cpu", rng)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("b_std", [0.0, 0.003, 0.1])
@pytest.mark.parametrize("phis", STACKS, ids=str)
def test_at_all_scales(phis, b_std, scale, dtype, engine, rng):
    check(phis, b_std, scale, dtype, engine, rng)


def test_pairs_are_the_same_in_both_places_and_are_told(rng):
    net, _ = network(("erf", 0.0), 1.4, 0.003)
    x, others = inputs(0.1, rng)
    together = net.kernel(np.concatenate([x[None], others]))
    assert any("by the reference engine" in note for note in together.notes)
    for values, apart in (
        (together.nngp, net.kernel(x[None], others).nngp),
        (together.ntk, net.kernel(x[None], others).ntk),
    ):
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_allclose(values[:1, 1:], apart, rtol=1e-14)


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
