"""Kernels of few pairs: what the engine computes as a list of pairs is what it computes by first inputs."""

import numpy as np
import pytest

from equitangents import groups, nn
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.scales import least_and_most

CONV = (nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1), nn.Relu())
END = (nn.GlobalAvgPool(), nn.Dense(1))
NETWORKS = {
    "pooled": nn.Sequential(*CONV * 2, *END),
    "pools between": nn.Sequential(*CONV, nn.AvgPool(2), *CONV, *END),
    "zeros, residual": nn.Sequential(
        nn.Conv(1, 3, padding="zero"), nn.Relu(), nn.Residual(nn.Conv(1, 3, padding="zero"), nn.Relu()), *END
    ),
    "group": nn.Sequential(
        nn.Lift(groups.wallpaper(4, False, (8, 8)), 1, (3, 3)), nn.Relu(), nn.GroupConv(1, (3, 3)), nn.GroupPool()
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_few_pairs_have_the_kernels_that_they_have_among_many(name, dtype, rng, monkeypatch):
    net = NETWORKS[name]
    x, y = (rng.standard_normal((n, 8, 8, 2)).astype(dtype) for n in (3, 2))
    y[1] = x[0]
    asked = []
    inner = run._by_pairs
    monkeypatch.setattr(run, "_by_pairs", lambda *given: asked.append(len(given[1])) or inner(*given))
    few = [net.kernel(x), net.kernel(x, y)]
    assert asked == [3, 3]
    monkeypatch.setattr(run, "_MOST_LISTED", 0)
    for ours, theirs in zip(few, [net.kernel(x), net.kernel(x, y)], strict=True):
        for one, other in ((ours.nngp, theirs.nngp), (ours.ntk, theirs.ntk)):
            np.testing.assert_allclose(one, other, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(few[0].ntk, few[0].ntk.T)
    np.testing.assert_array_equal(few[1].ntk[0, 1], few[0].ntk[0, 0])


@pytest.mark.parametrize("count", [3, 1000])
def test_extremes_of_few_and_of_many_numbers(count, rng):
    values = rng.random(count)
    assert least_and_most(values) == (values.min(), values.max())
    values[1] = np.inf
    assert least_and_most(values)[1] == np.inf
    values[2] = np.nan
    assert np.isnan(least_and_most(values)).all()
