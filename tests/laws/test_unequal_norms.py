"""Parallel and opposite inputs of unequal norm, and nearly such: biases leave a small angle, of which no digit is lost.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import Masked, nn
from kernels.comparison import assert_within
from laws.networks import dense
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


def of_vectors(layers, x, others):
    """The oracle's kernels of x and each other one, and of all with themselves."""
    pair = lambda f, g: precise_kernels.kernels(layers, f, g)
    return np.array([[pair(x, y) for y in others]]), np.array([pair(x, x)]), np.array([pair(y, y) for y in others])


def check(layers, x, others, engine, limit):
    found = dense(layers, PHI).kernel(x[None], others, engine=engine)
    assert_within(limit, found, *of_vectors(layers, x, others))


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 0.003, 0.1, 1.0])
@pytest.mark.parametrize("engine", engines("cpu"))
@pytest.mark.parametrize(
    "name", [n if n in ("three", "another") else pytest.param(n, marks=pytest.mark.slow) for n in STACKS]
)
def test_dense_layers(name, engine, bias, dtype, rng):
    layers = [la for phi in STACKS[name] for la in (("dense", 1.4, bias), ("phi", phi))] + [("dense", 1.4, bias)]
    check(layers, *inputs(dtype, rng), engine, LIMITS[np.dtype(dtype)])


def test_opposite_inputs_of_very_different_norm_are_as_exact_as_parallel_ones(rng):
    layers = [("dense", 1.4, 1e-3), ("phi", -1.0), ("dense", 1.4, 1e-3), ("phi", 0.0), ("dense", 1.4, 1e-3)]
    x, aside = rng.standard_normal((2, 8))
    others = np.array([r * (s * aside - x) for r in (30.0, 1e3, 1e6) for s in (0.0, 1e-8, 1e-5, 1e-3)])
    check(layers, x, others, "cpu", 1e-14)


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
    own = np.diagonal(exact).T
    assert_within(limit, net.kernel(signals, engine=engine), exact, own)


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


def check_signals(phis, bias, pooled, x, others, engine):
    found = convolutional(phis, bias, pooled).kernel(x[None], others, engine=engine)
    pair = lambda f, g: precise_kernels.of_signals(phis, f, g, W_STD, bias, 3, pooled)
    exact, own = np.array([[pair(x, y) for y in others]]), [np.array([pair(v, v) for v in vs]) for vs in ([x], others)]
    assert_within(OF_SIGNALS[engine, x.dtype.name], found, exact, *own)


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
    check_signals(phis, bias, pooled, *signals(dtype, rng), engine)


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
    check_signals(phis, 0.003, pooled, x.astype(dtype), others.astype(dtype), "reference")


@pytest.mark.slow
def test_parallel_inputs_under_masks_too(rng):
    """By the reference engine; what acts at each position knows one of them."""
    layers = [("dense", 1.4, 0.003), ("phi", 0.0), ("dense", 1.4, 0.003), ("phi", "erf"), ("dense", 1.4, 0.003)]
    layers += [("phi", 0.0)]
    net = nn.Sequential(*dense(layers, PHI | {"erf": nn.Erf()}).layers, nn.GlobalAvgPool())
    x, others = inputs(np.float64, rng)
    others = others[others @ x > 0]
    first, second = (np.stack([v, rng.standard_normal(v.shape)], axis=1) for v in (x[None], others))
    found = net.kernel(*(Masked(v, np.tile([True, False], (len(v), 1))) for v in (first, second)), engine="reference")
    assert_within(1e-14, found, *of_vectors(layers, x, others))
