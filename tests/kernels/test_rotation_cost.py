"""What kernels on rotation groups are said to cost: counts against literal ones, times against runs, assumptions."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError
from equitangents.groups import icosahedral, o3, so3
from equitangents.kernels import cost as costs
from equitangents.kernels.rotations import rings_of
from equitangents.nn import Dense, Erf, Flatten, GroupConv, GroupPool, Relu, Sequential, SphereLift


def network(group, *, readout=GroupPool, after=(), **lift):
    return Sequential(SphereLift(group, 1, b_std=0.1, **lift), Erf(), GroupConv(1), Erf(), readout(), *after, Dense(1))


@pytest.fixture
def counted(monkeypatch):
    """Nothing is timed: compiling what is would take longest."""
    monkeypatch.setattr(costs, "pair_seconds", lambda *_: (1e-3, 1.0))


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("group", [so3(3), o3(3), icosahedral()])
@pytest.mark.parametrize("resolution", [3, 5])
def test_rotations_are_the_nodes_that_run(group, resolution):
    lift = {} if group == icosahedral() else {"resolution": resolution}
    cost = network(group, **lift).kernel_cost((9, 2), 4)
    weights = rings_of(3, group, resolution).scanned["weights"]
    assert cost.offsets == np.count_nonzero(weights)
    assert (cost.pairs, cost.layers, cost.field_size) == (10, 2, 1)
    assert cost.element_layers == 10 * cost.offsets * 2
    assert cost.resolution == lift.get("resolution")


@pytest.mark.usefixtures("counted")
def test_flattening_takes_one_rotation_and_later_layers_one_element():
    flat = network(so3(3), readout=Flatten).kernel_cost((9, 2), 3, 2)
    assert (flat.offsets, flat.element_layers, flat.multiply_adds) == (1, 12, 6 * 9 * 2)
    assert flat.resolution is None
    assert flat.notes == ()
    few, more = (network(so3(3), resolution=3, after=a).kernel_cost((9, 2), 3, 2) for a in ((), (Dense(1), Relu())))
    assert more.element_layers == few.element_layers + 6


@pytest.mark.usefixtures("counted")
def test_memory_is_that_of_results_and_tiles():
    net = network(so3(3), resolution=4)
    few, many = (net.kernel_cost((9, 2), n, engine="reference") for n in (100, 1000))
    assert many.output_bytes == 2 * 1000**2 * 4
    assert many.working_bytes - few.working_bytes < 2 * 900 * 18 * 4  # the signals alone
    assert net.kernel_cost((9, 2), 100, dtype="float64").output_bytes == 2 * few.output_bytes
    few, many = (net.kernel_cost((9, 2), n) for n in (100, 1000))
    assert few.engine == "cpu"
    assert many.working_bytes - few.working_bytes < 900 * 4 * (3 * 18 + 2 * 2 * 20)  # and what is known of each


@pytest.mark.usefixtures("counted")
def test_the_resolution_is_that_of_random_signals_and_the_estimate_says_so():
    net = network(so3(3), tolerance=1e-3)
    cost = net.kernel_cost((9, 2), 40)
    x = np.random.default_rng(0).normal(size=(40, 9, 2)) * np.sqrt(4 * np.pi) / 3
    assert cost.resolution == net.kernel(x.astype(np.float32)).resolution
    (note,) = cost.notes
    assert f"resolution {cost.resolution}, where random signals of unit variance" in note
    assert "tolerance of 1e-03" in note
    assert "sampled at resolution" in str(cost)
    fixed = network(so3(3), resolution=5).kernel_cost((9, 2), 40)
    assert fixed.notes == ("sampled at resolution 5, as set",)
    # an estimate that has to assume a resolution allows for the next one
    coarse, fine = cost.resolution, next(r for r in (6, 7, 8, 10, 12) if r > cost.resolution)
    assert cost.uncertainty >= 1.5 * (fine * (2 * fine - 1) ** 2) / (coarse * (2 * coarse - 1) ** 2)


def test_bad_questions_are_refused():
    net = network(so3(2), resolution=2)
    for arguments in ((0,), (3, 0), (3, None, "float16"), (3, None, "float32", "gpu")):
        with pytest.raises(InvalidArgumentError):
            net.kernel_cost((4, 1), *arguments)


def test_a_block_is_timed():
    cost = network(icosahedral()).kernel_cost((4, 1), 40)
    assert 0 < cost.seconds < 60
    assert cost.uncertainty >= 1.5


@pytest.mark.usefixtures("counted")
def test_orbit_averages_of_them_are_counted():
    net = network(so3(2), resolution=2)
    turns = et.groups.cyclic(2)
    flip = et.actions.from_function(turns, lambda g, x: x if g == 0 else x * np.array([1.0, -1, -1, 1])[:, None])
    assert et.kernels.orbit_average(net, flip).kernel_cost((4, 1), 5, 3).pairs in (2 * 15, 4 * 15)
