"""Pools between layers in the CPU engine: what they cost, and which are refused."""

import numpy as np
import pytest

from equitangents import nn
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.kernels.engines import engine_of

CPU = engine_of("cpu")


def myrtle(*hidden):
    """As *Neural kernels without tangents* has it, on small images."""
    conv = (nn.Conv(1, 3, padding="zero", W_std=2**0.5), nn.Relu())
    return nn.Sequential(
        *(layer for part in hidden for layer in (*conv * part, nn.AvgPool(2))), nn.Flatten(), nn.Dense(1)
    )


def test_costs_of_networks_that_pool_are_literal_counts():
    net = myrtle(2, 1)
    cost = net.kernel_cost((8, 8, 3), 3, 5)
    assert (cost.form, cost.engine, cost.layers, cost.pairs) == ("offsets", "cpu", 3, 15)
    # The second pool's readout joins positions of one block of 2 × 2 of 4 × 4: 9 offsets with (4 - |q|) each way.
    coarse = sum((4 - abs(a)) * (4 - abs(b)) for a in range(-1, 2) for b in range(-1, 2))
    fine = sum((8 - abs(a)) * (8 - abs(b)) for a in range(-3, 4) for b in range(-3, 4))
    assert cost.offsets == 9 + 49
    assert cost.element_layers == 15 * (2 * fine + coarse)
    assert cost.multiply_adds == 15 * 49 * 8**2 * 3  # inputs begin as a torus


def test_a_pool_needs_no_more_memory_than_one_coarse_field_over_pairs(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # each thread has a field of its own
    conv = (nn.Conv(1, 3, padding="zero"), nn.Relu())
    net = nn.Sequential(*conv, nn.AvgPool(2), *conv, nn.GlobalAvgPool(), nn.Dense(1))
    held = 16**4
    cost = net.kernel_cost((32, 32, 3), 16, 16, engine="cpu")
    assert held * 2 * 16 * 4 < cost.working_bytes < 40 << 20


@pytest.mark.parametrize(
    "layers", [(nn.Conv(1, 2), nn.AvgPool(2)), (nn.AvgPool(2, 1, "circular"),)], ids=["layer", "pool"]
)
def test_circular_windows_after_zero_padding_say_that_they_mix_offsets(layers):
    net = nn.Sequential(nn.Conv(1, 2, padding="zero"), *layers, nn.Conv(1, 2), nn.Relu(), nn.Flatten(), nn.Dense(1))
    with pytest.raises(InvalidArgumentError, match="circular padding after a layer that breaks the torus"):
        net.kernel(np.ones((2, 6, 6, 1)), engine="cpu")


def test_windows_of_pools_are_checked():
    net = nn.Sequential(nn.AvgPool(3, stride=2, padding="zero"), nn.Flatten(), nn.Dense(1))
    assert net.signals((5, 4, 2))[1].positions.shape == (3, 2)
    with pytest.raises(InvalidArgumentError, match="stride is 0"):
        nn.AvgPool(2, stride=0)
    with pytest.raises(InvalidArgumentError, match="padding is 'same'"):
        nn.AvgPool(2, padding="same")
    with pytest.raises(NetworkError, match=r"is \(4, 4\); expected \(3, 3\); at most the grid"):
        nn.Sequential(nn.AvgPool(4, stride=1), nn.Flatten(), nn.Dense(1)).signals((3, 3, 1))
