"""The compiled engine against literal sums in NumPy, one small network for each of its operations."""

import numpy as np
import pytest

from equitangents import actions
from laws.networks import check, small_group

RELU, ERF, DENSE = ("phi", "relu"), ("phi", "erf"), ("dense", 1.2, 0.3)
FLAT, POOL = (("flatten",), DENSE), (("global_pool",), DENSE)


def conv(window, stride=1, padding="circular"):
    strides = stride if isinstance(stride, tuple) else (stride,) * len(window)
    return ("conv", window, strides, padding, 1.3, 0.2)


GRIDS = {
    "vectors": ((4,), [("flatten",), DENSE, RELU, DENSE, ERF, DENSE]),
    "three dimensions": ((2, 3, 4), [conv((2, 3, 2)), RELU, conv((1, 2, 3)), ERF, *POOL]),
    "strides and zeros": ((5, 4), [conv((3, 2), 2, "zero"), RELU, conv((2, 3), 1, "zero"), RELU, *FLAT]),
    "two strides": ((8, 3), [conv((3, 2), (2, 1)), RELU, conv((2, 2), (2, 1)), ERF, *POOL]),
    "valid": ((6, 5), [conv((3, 2), 1, "valid"), RELU, conv((2, 2), 2, "valid"), RELU, *POOL]),
    "locally connected": (
        (4, 3),
        [("local", (3, 2), (1, 1), "zero", 1.1, 0.4), RELU, conv((2, 2), 1, "zero"), RELU, *POOL],
    ),
    "ragged pool": ((5, 3), [conv((2, 2)), RELU, ("avg_pool", (2, 2)), *FLAT]),
    "a pool of a ragged pool": ((5, 4), [conv((2, 2)), RELU, ("avg_pool", (2, 3)), *POOL]),
    "residual of means": ((4, 4), [conv((3, 3)), RELU, ("residual", [conv((3, 3)), RELU]), *POOL]),
    "residual": ((4, 4), [conv((3, 3)), ("residual", [RELU, conv((3, 3))]), RELU, *FLAT]),
}


@pytest.mark.parametrize("name", GRIDS)
def test_networks_on_grids(name):
    grid, layers = GRIDS[name]
    x = np.random.default_rng(len(name)).standard_normal((5, *grid, 2))
    check(layers, x[:3], x[3:], engine="cpu")
    check(layers, x[:3], engine="cpu")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "phi", [("relu",), ("leaky_relu", 0.3), ("abs",), ("erf",), ("gelu",), ("sin",), ("cos",)], ids=lambda phi: phi[0]
)
def test_every_nonlinearity(phi):
    x = np.random.default_rng(5).standard_normal((4, 5, 2))
    layers = [conv((3,), 1, "zero"), ("phi", *phi), ("residual", [conv((2,), 1, "zero"), ("phi", *phi)]), *POOL]
    check(layers, np.concatenate([x, -x[:1]]), engine="cpu")


@pytest.mark.parametrize("readout", [("flatten",), ("coset_pool", np.zeros(6, dtype=int))], ids=["flatten", "pool"])
def test_windows_of_unequal_weights_on_a_group(readout):
    group, table = small_group("S3")
    points = np.array([group.element(g) for g in range(6)])
    lift = ("lift", points, [0, 1], np.array([0.7, 0.3]), 1.2, 0.1)
    later = ("group_conv", table, [0, 2, 3], np.array([0.5, 0.2, 0.3]), 1.1, 0.2)
    x = np.random.default_rng(3).standard_normal((4, 3, 2))
    check([lift, RELU, later, RELU, readout, DENSE], x, action=actions.permutations(group, points), engine="cpu")

    weights = np.array([0.3, 0.1, 0.2, 0.15, 0.05, 0.2])
    full = ("group_conv", table, list(range(6)), weights, 1.1, 0.2)
    check(
        [lift, RELU, full, RELU, later, ERF, readout, DENSE],
        x,
        action=actions.permutations(group, points),
        engine="cpu",
    )
