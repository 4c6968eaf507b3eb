"""Kernels are finite numbers, of zero, equal and opposite inputs too, by every engine and in both precisions."""

import numpy as np
import pytest

from equitangents import nn

NETS = {
    "dense": nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1), nn.Erf(), nn.Dense(1)),
    "pooled": nn.Sequential(nn.Conv(1, 3), nn.Gelu(), nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1)),
}


@pytest.mark.parametrize("engine", [None, "reference"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NETS)
def test_kernels_are_finite_everywhere(name, dtype, engine):
    x = np.random.default_rng(0).normal(size=(3, 4) if name == "dense" else (3, 5, 2))
    x = np.concatenate([x, 0 * x[:1], x[:1], -x[:1]]).astype(dtype)
    net = NETS[name]
    for kernels in (net.kernel(x, engine=engine), net.kernel(x, x[1:], engine=engine), net.kernel_diagonal(x, engine)):
        assert np.isfinite(kernels.nngp).all()
        assert np.isfinite(kernels.ntk).all()
