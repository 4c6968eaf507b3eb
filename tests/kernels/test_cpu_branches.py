"""Residual branches in the CPU engine: random networks against the reference engine and against literal sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents.nn import (
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
)
from kernels.comparison import check_cpu
from kernels.random_networks import CHANNELS, MORE
from laws.networks import check as check_literally

PHIS = ("relu", "abs", "erf", "gelu", "sin", "cos")


def convolution(draw, sides, padding, keep=False):
    """A random layer on a grid; `keep`: one whose output has the shape of its input."""
    kind = draw(st.sampled_from([Conv, Conv, LocallyConnected]))
    window = tuple(draw(st.integers(1, min(4, n))) for n in sides)
    stride = tuple(1 if keep or n % 2 else draw(st.sampled_from([1, 2])) for n in sides)
    weights = {"W_std": draw(st.sampled_from([0.7, 1.4])), "b_std": draw(st.sampled_from([0.0, 0.3]))}
    layer = kind(1, window, stride=stride, padding=padding, **weights)
    return layer, tuple(-(-n // s) for n, s in zip(sides, stride, strict=True))


def branch(draw, sides, padding, depth, gaussian):
    """(a residual block, perhaps with a block inside, and whether a nonlinearity may follow)."""
    layers, now = [], gaussian
    for kind in draw(st.sampled_from(["cp", "pc", "pcp", "cpc", "ci", "pci", "ic", "cpcp"])):
        if kind == "c":
            layers, now = [*layers, convolution(draw, sides, padding, keep=True)[0]], True
        elif kind == "p" and now:
            layers, now = [*layers, draw(st.sampled_from(MORE))], False
        elif kind == "i" and depth > 1:
            inner, now = branch(draw, sides, padding, depth - 1, now)
            layers = [*layers, inner]
    return Residual(*layers), now and gaussian


@st.composite
def grid_cases(draw):
    """(network, shape of an input, how many inputs, how many others, seed)."""
    shape = draw(st.sampled_from([(9,), (14,), (6, 4), (5, 5), (3, 2, 4)]))
    padding = draw(st.sampled_from(["circular", "zero"]))
    layers, sides = [], shape
    gaussian = False
    for i in range(draw(st.integers(1, 3))):
        if i == 0 or draw(st.booleans()):
            layer, sides = convolution(draw, sides, padding)
            layers, gaussian = [*layers, layer], True
        if gaussian and draw(st.booleans()):
            layers, gaussian = [*layers, draw(st.sampled_from(MORE))], False
        block, gaussian = branch(draw, sides, padding, 3, gaussian)
        layers += [block]
    layers += [draw(st.sampled_from([Flatten(), GlobalAvgPool()])), Dense(1, b_std=0.1)]
    if draw(st.booleans()):
        layers += [Relu(), Residual(Dense(1), draw(st.sampled_from(MORE))), Dense(1)]
    shape = (*shape, draw(CHANNELS))
    return Sequential(*layers), shape, draw(st.integers(1, 19)), draw(st.integers(0, 35)), draw(st.integers(0, 1000))


def check_on_random_inputs(net, shape, n1, n2, seed):
    """`check_cpu` on n1 inputs, with n2 others where there are any."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.standard_normal((n1, *shape)), rng.standard_normal((n2, *shape)) if n2 else None
    check_cpu(net, x1, x2)


@given(grid_cases())
@settings(max_examples=1)
def test_random_residual_networks_on_grids(case):
    check_on_random_inputs(*case)


@st.composite
def literal_cases(draw):
    """Layers in the oracle's words, and inputs."""
    shape, padding = draw(st.sampled_from([(5,), (3, 4)])), draw(st.sampled_from(["circular", "zero"]))

    def linear():
        window = tuple(draw(st.integers(1, 3)) for _ in shape)
        return ("conv", window, (1,) * len(shape), padding, 1.3, draw(st.sampled_from([0.0, 0.2])))

    def residual(depth):
        inner = [residual(depth - 1)] if depth and draw(st.booleans()) else []
        return ("residual", [*inner, linear(), *([] if inner and draw(st.booleans()) else [phi])])

    phi = ("phi", draw(st.sampled_from(PHIS)))
    layers = [linear(), phi, *(residual(2) for _ in range(draw(st.integers(1, 2))))]
    readout = draw(st.sampled_from(["flatten", "global_pool"]))
    dense = ("dense", 1.1, 0.1)
    end = [("phi", "relu"), ("residual", [dense, ("phi", "gelu")])] if draw(st.booleans()) else []
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return [*layers, (readout,), dense, *end, dense], rng.standard_normal((3, *shape, 2))


@given(literal_cases())
@settings(max_examples=6)
def test_residual_networks_are_literal_sums(case):
    check_literally(*case)


@pytest.mark.parametrize("windows", [((1, 2), (3, 2)), ((3, 3), (1, 1), (2, 3))], ids=["wider", "narrower"])
def test_neighbouring_blocks_whose_windows_have_other_margins(windows, rng):
    blocks = [("residual", [("conv", w, (1, 1), "zero", 1.3, 0.1)]) for w in windows]
    check_literally([*blocks, ("global_pool",), ("dense", 1.1, 0.1)], rng.standard_normal((3, 4, 3, 3)))


@pytest.mark.slow
def test_too_many_branches_inside_each_other_go_to_the_reference(rng):
    layer = Dense(1)
    for _ in range(9):
        layer = Residual(Dense(1), layer)
    result = Sequential(layer).kernel(rng.standard_normal((2, 1)))
    assert result.engine == "reference"
    assert "at most 8 residual branches" in result.notes[0]
