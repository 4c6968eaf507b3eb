"""Parallel and opposite inputs of unequal norm, and nearly such: biases leave a small angle, of which no digit is lost.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import Masked, nn
from kernels.comparison import largest
from oracles import precise_kernels

PHI = {0.0: nn.Relu(), 0.2: nn.LeakyRelu(0.2), -1.0: nn.Abs()}
STACKS = {"one kink": (0.0,), "three": (0.0,) * 3, "five": (0.0,) * 5, "another": (-1.0, 0.0), "leaky": (0.2,) * 3}
RATIOS = (1.0, 1 + 1e-7, 1.1, 3.0, 255.0, 1e4)
SIZES = (0.0, 1e-8, 1e-4, 1e-2)  # of what is not parallel
W_STD = 1.4
LIMITS = {np.dtype("float32"): 5e-7, np.dtype("float64"): 1e-13}


def engines(*usual):
    """The engines, of which those that are not `usual` are for the slow tests."""
    return [pytest.param(e, marks=() if e in usual else pytest.mark.slow) for e in ("cpu", "reference")]


def inputs(dtype, rng):
    """(x, others): along x but for a small part, both ways, at every ratio of norms, and one at a right angle."""
    x, aside = rng.standard_normal((2, 8))
    aside -= x * (x @ aside) / (x @ x)
    return x.astype(dtype), np.array(
        [r * v for r in RATIOS for v in (*(c * x + s * aside for c in (1, -1) for s in SIZES), aside)]
    ).astype(dtype)


def assert_within(net, layers, x, others, engine, limit=None):
    found = net.kernel(x[None], others, engine=engine)
    exact = np.array([precise_kernels.kernels(layers, x, y) for y in others])
    own = np.array([precise_kernels.kernels(layers, v, v) for v in (x, *others)])
    for i, values in enumerate((found.nngp, found.ntk)):
        error = np.abs(np.asarray(values[0], float) - exact[:, i]) / np.sqrt(own[0, i] * own[1:, i])
        assert np.max(error) <= (limit or LIMITS[x.dtype]), f"off by {np.max(error):.1e}"


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 0.003, 0.1, 1.0])
@pytest.mark.parametrize("engine", engines("cpu"))
@pytest.mark.parametrize(
    "name", [n if n in ("three", "another") else pytest.param(n, marks=pytest.mark.slow) for n in STACKS]
)
def test_dense_layers(name, engine, bias, dtype, rng):
    layers = [la for phi in STACKS[name] for la in (("dense", 1.4, bias), ("phi", phi))] + [("dense", 1.4, bias)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    assert_within(nn.Sequential(*made), layers, *inputs(dtype, rng), engine)


def test_opposite_inputs_of_very_different_norm_are_as_exact_as_parallel_ones(rng):
    layers = [("dense", 1.4, 1e-3), ("phi", -1.0), ("dense", 1.4, 1e-3), ("phi", 0.0), ("dense", 1.4, 1e-3)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    x, aside = rng.standard_normal((2, 8))
    others = np.array([r * (s * aside - x) for r in (30.0, 1e3, 1e6) for s in (0.0, 1e-8, 1e-5, 1e-3)])
    assert_within(nn.Sequential(*made), layers, x, others, "cpu", limit=1e-14)


@pytest.mark.parametrize("engine", engines("cpu"))
@pytest.mark.parametrize("bias", [0.003, 0.1, 1.0])
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_contrast_copies_of_signals_with_dark_places(dtype, limit, bias, engine, rng):
    """The ratio of two images' local norms is that of the images, or 1 where both are black."""
    x = rng.integers(0, 256, (16, 3)) * (rng.random((16, 1)) < 0.5)
    x[:6] = 0
    signals = np.array([c * x for c in (1.0, 0.3, 0.9)]).astype(dtype)
    conv = nn.Conv(1, 3, W_std=1.4, b_std=bias, padding="valid")
    net = nn.Sequential(conv, nn.Relu(), conv, nn.Relu(), conv, nn.Relu(), nn.Flatten())
    exact = np.array([[precise_kernels.of_signals((0.0,) * 3, a, b, W_STD, bias, 3) for b in signals] for a in signals])
    found = net.kernel(signals, engine=engine)
    for i, values in enumerate((found.nngp, found.ntk)):
        own = np.diag(exact[..., i])
        assert largest(values, exact[..., i], own, own) <= limit


LAYERS = {"normalised": nn.LayerNorm(), "erf": nn.Erf(), "gelu": nn.Gelu(), **PHI}
SIGNALS = [(0.0, "normalised", 0.0), (0.0, "gelu", 0.0), (-1.0, 0.0), ("normalised", 0.0), (0.0, "erf"), ("erf", 0.0)]
# One unit for all positions: where norms differ from those of the whole, of nearly equal parts it holds the rest. The
# reference engine has one for each pair of positions.
OF_SIGNALS = {
    ("cpu", "float32"): 2e-6,
    ("cpu", "float64"): 2e-12,
    ("reference", "float32"): 5e-7,
    ("reference", "float64"): 1e-14,
}


def signals(dtype, rng):
    """(x, others): along it and against it but for a small part, also at other norms, and an unrelated signal."""
    x, aside = rng.standard_normal((2, 8, 4))
    others = [r * v for r in (1.0, 1.1, 3.0) for v in (x, -x, x + 1e-6 * aside, -x + 1e-4 * aside, aside)]
    x = x.copy()
    x[0] = 0
    return x.astype(dtype), np.array(others).astype(dtype)


def convolutional(phis, bias, pooled):
    conv = nn.Conv(1, 3, W_std=W_STD, b_std=bias, padding="valid")
    layers = [la for phi in phis for la in (conv, LAYERS[phi])]
    return nn.Sequential(*layers, nn.GlobalAvgPool() if pooled else nn.Flatten())


def assert_within_of_signals(phis, bias, pooled, values, x, others, engine):
    exact, own1, own2 = (
        np.array([precise_kernels.of_signals(phis, a, b, W_STD, bias, 3, pooled) for a, b in pairs])
        for pairs in ([(x, y) for y in others], [(x, x)], [(y, y) for y in others])
    )
    for i, found in enumerate(values):
        error = np.abs(np.asarray(found[0], float) - exact[:, i]) / np.sqrt(own1[:, i] * own2[:, i])
        assert np.max(error) <= OF_SIGNALS[engine, x.dtype.name], f"off by {np.max(error):.1e}"


@pytest.mark.quick(1)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("phis", "bias", "pooled", "dtype"),
    [pytest.param(*case, marks=() if i < 3 else pytest.mark.slow) for i, case in enumerate(
        (phis, bias, pooled, dtype) for dtype in (np.float32, np.float64) for bias in (0.003, 0.1)
        for pooled in (False, True) for phis in SIGNALS)],
    ids=str,
)  # fmt: skip
def test_parallel_and_opposite_signals(phis, bias, pooled, dtype, engine, rng):
    """Also behind layer normalisation and smooth functions; opposite signals have the distance of f and -g."""
    x, others = signals(dtype, rng)
    found = convolutional(phis, bias, pooled).kernel(x[None], others, engine=engine)
    assert_within_of_signals(phis, bias, pooled, (found.nngp, found.ntk), x, others, engine)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("phis", "dtype"),
    [
        pytest.param(phis, dtype, marks=() if (i, dtype) in {(0, np.float32), (2, np.float64)} else pytest.mark.slow)
        for i, phis in enumerate(SIGNALS)
        for dtype in (np.float32, np.float64)
    ],
)
@pytest.mark.parametrize("pooled", [False, True])
def test_parts_of_signals_that_are_parallel_or_opposite_at_norms_of_their_own(phis, pooled, dtype, rng):
    """By the reference engine, which carries the angle of each pair of positions."""
    x = rng.standard_normal((9, 4))
    x[5:] = -3 * x[:4]
    others = np.array([np.linspace(0.1, 3, 9)[:, None] * x, -x, 2 * x])
    others[2, 5:] += 1e-6 * rng.standard_normal((4, 4))
    x[2] = 0
    x, others = x.astype(dtype), others.astype(dtype)
    found = convolutional(phis, 0.003, pooled).kernel(x[None], others, engine="reference")
    assert_within_of_signals(phis, 0.003, pooled, (found.nngp, found.ntk), x, others, "reference")


@pytest.mark.slow
def test_parallel_inputs_under_masks_too(rng):
    """By the reference engine; what acts at each position knows one of them."""
    layers = [("dense", 1.4, 0.003), ("phi", 0.0), ("dense", 1.4, 0.003), ("phi", "erf"), ("dense", 1.4, 0.003)]
    layers += [("phi", 0.0)]
    phis = {0.0: nn.Relu(), "erf": nn.Erf()}
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else phis[la[1]] for la in layers)
    net = nn.Sequential(*made, nn.GlobalAvgPool())
    x, others = inputs(np.float64, rng)
    others = others[others @ x > 0]
    first, second = (np.stack([v, rng.standard_normal(v.shape)], axis=1) for v in (x[None], others))
    found = net.kernel(*(Masked(v, np.tile([True, False], (len(v), 1))) for v in (first, second)), engine="reference")
    exact = np.array([precise_kernels.kernels(layers, x, y) for y in others])
    own = np.array([precise_kernels.kernels(layers, v, v) for v in (x, *others)])
    for i, values in enumerate((found.nngp, found.ntk)):
        error = np.abs(values[0] - exact[:, i]) / np.sqrt(own[0, i] * own[1:, i])
        assert np.max(error) <= 1e-14, f"off by {np.max(error):.1e}"
