"""Parallel and opposite inputs of unequal norm, and nearly such: biases leave a small angle, of which no digit is lost.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from equitangents import nn
from equitangents.kernels.engines import gpu
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


@pytest.mark.parametrize("bias", [0.003, pytest.param(0.1, marks=pytest.mark.slow)])
def test_the_reference_engine_too(bias, rng):
    layers = [("dense", 1.4, bias), ("phi", 0.0), ("dense", 1.4, bias), ("phi", 0.0), ("dense", 1.4, bias)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    assert_within(nn.Sequential(*made), layers, *inputs(np.float32, rng), "reference")


def test_opposite_inputs_of_very_different_norm_are_as_exact_as_parallel_ones(rng):
    layers = [("dense", 1.4, 1e-3), ("phi", -1.0), ("dense", 1.4, 1e-3), ("phi", 0.0), ("dense", 1.4, 1e-3)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    x, aside = rng.standard_normal((2, 8))
    others = np.array([r * (s * aside - x) for r in (30.0, 1e3, 1e6) for s in (0.0, 1e-8, 1e-5, 1e-3)])
    assert_within(nn.Sequential(*made), layers, x, others, "cpu", limit=1e-14)


def convolutions(x, y, bias, window, depth):
    """(K, Θ) of signals (positions, channels) after convolutions inside the grid with ReLUs, and a flattening."""
    with localcontext() as context:
        context.prec = precise_kernels.DIGITS
        x, y = ([[Decimal(float(c)) for c in p] for p in v] for v in (x, y))
        pairs = [[sum(s * t for s, t in zip(p, q, strict=True)) / len(p) for p, q in zip(a, b, strict=True)] for a, b in
                 ((x, x), (y, y), (x, y))]  # fmt: skip
        W, b = Decimal(W_STD) ** 2, Decimal(float(bias)) ** 2
        thetas = [Decimal(0)] * len(x)
        for _ in range(depth):
            ends = range(window, len(thetas) + 1)
            pairs = [[W * sum(v[e - window : e]) / window + b for e in ends] for v in pairs]
            thetas = [k + W * sum(thetas[e - window : e]) / window for e, k in zip(ends, pairs[2], strict=True)]
            duals = [precise_kernels.piecewise_linear(0, *z) for z in zip(*pairs, strict=True)]
            thetas = [t * slope for t, (_, slope) in zip(thetas, duals, strict=True)]
            pairs = [[v / 2 for v in pairs[0]], [v / 2 for v in pairs[1]], [k for k, _ in duals]]
        return tuple(float(sum(v) / len(v)) for v in (pairs[2], thetas))


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
    exact = np.array([[convolutions(a, b, bias, 3, 3) for b in signals] for a in signals])
    found = net.kernel(signals, engine=engine)
    for i, values in enumerate((found.nngp, found.ntk)):
        own = np.diag(exact[..., i])
        assert largest(values, exact[..., i], own, own) <= limit


def test_the_gpu_engine_has_units_too(rng, monkeypatch):
    monkeypatch.setenv(gpu.EMULATE, "1")
    conv = nn.Conv(1, 3, b_std=0.01)
    net = nn.Sequential(conv, nn.Relu(), conv, nn.Relu(), nn.Flatten(), nn.Dense(1, b_std=0.01))
    x = rng.standard_normal((1, 6, 5)).astype(np.float32)
    y = np.concatenate([c * x for c in (1, 3, np.float32(0.01))])
    found, exact = net.kernel(y, engine="gpu"), net.kernel(y.astype(float), engine="cpu")
    assert found.engine == "gpu"
    assert largest(found.ntk, exact.ntk, np.diag(exact.ntk), np.diag(exact.ntk)) <= 1e-6
