"""Global pools over every s-th position: finite networks, kernels by literal sums, and cost."""

import jax
import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents.nn import AvgPool, Conv, Dense, GlobalAvgPool, Relu, Sequential
from laws.networks import check, network
from oracles.literal_kernels import grid_reads


def sublattice(shape, every):
    """0 on multiples of `every`, -1 elsewhere."""
    on_it = [all(i % s == 0 for i, s in zip(p, every, strict=True)) for p in np.ndindex(*shape)]
    return np.where(on_it, 0, -1)


@pytest.mark.parametrize(("padding", "every"), [("circular", (2, 2)), ("zero", (2, 3)), ("valid", (3, 1))])
def test_kernels_are_literal_sums_over_the_positions_left(padding, every, rng):
    layers = [("conv", (2, 3), (1, 1), padding, 1.3, 0.1), ("phi", "relu"), ("conv", (2, 2), (1, 1), padding, 1.2, 0.0)]
    x = rng.standard_normal((3, 6, 6, 2))
    shape = network(layers).signals(x.shape[1:])[-1].positions.shape
    pool = (("coset_pool", sublattice(shape, every)), GlobalAvgPool(every))
    check([*layers, ("phi", "erf"), pool, ("dense", 1.0, 0.0)], x)


def test_finite_networks_average_the_positions_left(rng):
    x = rng.standard_normal((2, 6, 4, 3)).astype(np.float32)
    params = Sequential(Dense(3), GlobalAvgPool(every=(3, 2))).init(jax.random.key(0), x.shape[1:])
    y = Sequential(Dense(3), GlobalAvgPool(every=(3, 2))).apply(params, x)
    hidden = Sequential(Dense(3)).apply(params[:1], x)
    np.testing.assert_allclose(y, np.asarray(hidden)[:, ::3, ::2].mean((1, 2)), rtol=1e-5)


@pytest.mark.quick(2)
@pytest.mark.parametrize("padding", ["circular", "zero", "valid"])
@pytest.mark.parametrize(("window", "stride"), [((2, 3), None), ((3, 2), (1, 2)), ((2, 2), (3, 1))])
def test_finite_pools_are_means_over_windows(padding, window, stride, rng):
    x = rng.standard_normal((2, 5, 6, 3)).astype(np.float32)
    net = Sequential(Dense(3), AvgPool(window, stride, padding))
    params = net.init(jax.random.key(0), x.shape[1:])
    hidden = np.asarray(Sequential(Dense(3)).apply(params[:1], x)).reshape(2, -1, 3)
    grid, reads = grid_reads((5, 6), window, stride or window, padding)
    padded = np.concatenate([hidden, np.zeros((2, 1, 3))], axis=1)
    np.testing.assert_allclose(
        net.apply(params, x), padded[:, reads].mean(2).reshape(2, *grid, 3), rtol=1e-4, atol=1e-6
    )


def test_every_second_position_costs_a_quarter():
    def cost(every):
        net = Sequential(*[Conv(1, 3), Relu()] * 2, GlobalAvgPool(every=every), Dense(1))
        return net.kernel_cost((12, 12, 1), 1, 1)

    assert [cost(s).offsets for s in (1, 2, 3)] == [144, 36, 16]
    assert cost(1).element_layers == 4 * cost(2).element_layers


def test_steps_that_leave_no_sublattice_are_refused():
    with pytest.raises(InvalidArgumentError, match="every is 0"):
        GlobalAvgPool(every=0)
