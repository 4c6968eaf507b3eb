"""Kernels are finite numbers, of zero, equal and opposite inputs too, by every engine and in both precisions."""

import itertools

import numpy as np
import pytest

from equitangents import nn

NETS = {
    "dense": nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1), nn.Erf(), nn.Dense(1)),
    "pooled": nn.Sequential(nn.Conv(1, 3), nn.Gelu(), nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1)),
}


CASES = list(itertools.product(NETS, [np.float32, np.float64], [None, "reference"]))
FIRST = CASES[1]  # the reference engine compiles each


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("name", "dtype", "engine"),
    [pytest.param(*case, marks=() if case[2] is None or case == FIRST else pytest.mark.slow) for case in CASES],
)
def test_kernels_are_finite_everywhere(name, dtype, engine):
    x = np.random.default_rng(0).normal(size=(3, 4) if name == "dense" else (3, 5, 2))
    x = np.concatenate([x, 0 * x[:1], x[:1], -x[:1]]).astype(dtype)
    net = NETS[name]
    for kernels in (net.kernel(x, engine=engine), net.kernel(x, x[1:], engine=engine), net.kernel_diagonal(x, engine)):
        assert np.isfinite(kernels.nngp).all()
        assert np.isfinite(kernels.ntk).all()
