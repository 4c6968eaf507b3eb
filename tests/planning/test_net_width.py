"""Plans at the net's own widths: networks followed in few steps are those of gradient descent, and are planned with."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from equitangents import (
    DeepEnsemble,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
    actions,
    nn,
    plan_ensemble,
    precision,
)
from equitangents.ensembles import BaggedInfiniteEnsemble
from equitangents.ensembles.orbits.law import orbit_batch, orbit_law
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError
from equitangents.inference import Momentum
from equitangents.planning.net_width import _enough, follow
from equitangents.planning.pilot import Followed

ROT = actions.image_rotations(4)
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(3, 2, 2, 1)), np.array([1.0, -0.5, 0.4]), RNG.normal(size=(4, 2, 2, 1))
LINEAR = nn.Sequential(nn.Flatten(), nn.Dense(1, b_std=0.5))
NARROW = nn.Sequential(nn.Flatten(), nn.Dense(8, W_std=1.4, b_std=0.3), nn.Erf(), nn.Dense(1))


def infinite(net=NARROW, **settings):
    return InfiniteEnsemble(net, **{"augmentation": ROT, "time": 6.0, "learning_rate": 1.0, **settings}).fit(X, Y)


def descended(net, key, rate, steps, ridge=0.0, momentum=0.0):
    """A network after full-batch gradient descent on all turned copies, step by step, at NEW.

    The ridge, of the kernel's mean diagonal, weighs how far parameters are from where they began.
    """
    x = np.concatenate([np.asarray(ROT(g, X)) for g in range(4)])
    y = np.tile(Y, 4)
    weight = ridge * np.diag(net.kernel(x).ntk).mean() / len(x)
    with precision.scope(np.float64):
        start = params = net.init(key, x.shape[1:], dtype="float64")
        away = lambda p: sum(jax.tree.leaves(jax.tree.map(lambda a, b: ((a - b) ** 2).sum(), p, start)))
        loss = lambda p: ((net.apply(p, x)[:, 0] - y) ** 2).mean() / 2 + weight * away(p) / 2

        def step(_, state):
            p, v = state
            v = jax.tree.map(lambda v, g: momentum * v + g, v, jax.grad(loss)(p))
            return jax.tree.map(lambda a, v: a - rate * v, p, v), v

        state = params, jax.tree.map(jax.numpy.zeros_like, params)
        params = jax.jit(lambda state: jax.lax.fori_loop(0, steps, step, state))(state)[0]
        return np.asarray(net.apply(params, NEW))


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_networks_end_where_gradient_flow_ends_with_the_square_of_the_stages(ridge):
    key, model = jax.random.split(jax.random.key(5), 1)[0], infinite(ridge=ridge)
    end = descended(NARROW, key, 0.0025, 2400, ridge)
    errors = [np.abs(follow(model, 6.0, 1, 5, stages=s).predict_members(NEW)[0] - end).max() for s in (1, 2, 4)]
    assert errors[1] < errors[0] / 4
    assert errors[2] < errors[1] / 4


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("dynamics", ["flow", "discrete"])
def test_a_network_whose_kernel_cannot_move_is_exact_in_any_number_of_stages(dynamics, ridge):
    model = infinite(LINEAR, dynamics=dynamics, learning_rate=0.2, time=20, ridge=ridge)
    key = jax.random.split(jax.random.key(3), 1)[0]
    rate, steps = (0.2, 20) if dynamics == "discrete" else (0.0005, 8000)
    end = descended(LINEAR, key, rate, steps, ridge)
    for stages in (1, 4):
        found = follow(model, 20.0, 1, 3, stages=stages).predict_members(NEW)[0]
        np.testing.assert_allclose(found, end, rtol=1e-9 if dynamics == "discrete" else 1e-3, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_stage_goes_on_with_the_velocity_of_the_one_before(ridge):
    key = jax.random.split(jax.random.key(3), 1)[0]
    model = infinite(LINEAR, dynamics=Momentum(0.8), learning_rate=0.1, time=20, ridge=ridge)
    end = descended(LINEAR, key, 0.1, 20, ridge, 0.8)
    for stages in (1, 4):
        found = follow(model, 20.0, 1, 3, stages=stages)
        np.testing.assert_allclose(found.predict_members(NEW)[0], end, rtol=1e-9, atol=1e-12)
    assert found.training.epochs == 20


def test_networks_with_momentum_end_where_its_steps_do():
    """Short ones: a stage takes the tangent kernel at its middle, a step where it begins."""
    key = jax.random.split(jax.random.key(5), 1)[0]
    model = infinite(dynamics=Momentum(0.8), learning_rate=0.001, time=1200)
    end = descended(NARROW, key, 0.001, 1200, momentum=0.8)
    errors = [np.abs(follow(model, 1200.0, 1, 5, stages=s).predict_members(NEW)[0] - end).max() for s in (1, 2, 4)]
    assert errors[1] < errors[0] / 4
    assert errors[2] < errors[1] / 4
    assert errors[2] < 1e-3


def test_steps_too_large_for_a_network_end_where_smaller_ones_would():
    """In the limit the rate is stable; a network with a larger kernel settles, and does not run away."""
    model = infinite(dynamics="discrete", time=40)
    model = infinite(dynamics="discrete", time=40, learning_rate=0.99 * model.max_learning_rate_)
    outputs = follow(model, 40.0, 8, 0, stages=8).predict_members(NEW)
    assert np.abs(outputs).max() < 20


def test_the_control_variate_is_the_network_itself_where_the_kernel_is_that_of_the_limit():
    """Then mean and spread are those of all initial networks: eight times as many, here within their chance of Σ."""
    model = infinite(LINEAR, time=2.0)
    net = follow(model, 2.0, 40, 1, stages=1)
    batch = orbit_batch(ROT, NEW)
    raw = net.predict_members(batch).reshape(40, 4, 4, 1)
    outputs, spread = net.controlled(raw, batch)
    law = orbit_law(model, ROT, NEW, draws=4000, key=0)
    expected = lambda f: ((f - f.mean(axis=2, keepdims=True)) ** 2).sum(axis=(1, 2, 3)).mean()
    assert expected(outputs - outputs.mean(axis=0)) * 40 / 39 == pytest.approx(spread.value, rel=1e-9)
    assert spread.value == pytest.approx(expected(law.fluctuations), rel=0.12)
    assert spread.low < spread.value < spread.high
    assert spread.high - spread.low < 0.4 * spread.value
    off = lambda f: np.abs(f.mean(axis=0) - law.mean).max()
    assert off(outputs) < off(raw)


def test_stages_are_doubled_until_outputs_stay_where_they_are():
    """0.3 of their spread is tolerated; networks whose kernels cannot move need no more than the fewest."""
    easy = follow(infinite(LINEAR), 6.0, 4, 0, NEW).training
    assert (easy.stages, easy.moved) == (4, pytest.approx(0, abs=1e-9))
    large = InfiniteEnsemble(NARROW, augmentation=ROT).fit(X, 3 * Y)
    found = follow(large, np.inf, 4, 0, NEW).training
    assert 4 < found.stages < 64
    assert found.moved <= 0.3
    assert found.settled
    assert not replace(found, moved=0.31).settled


@pytest.mark.parametrize("time", [6.0, np.inf])
def test_the_ridge_is_that_of_the_theory(time):
    """On all copies of the data, with the mean that infinite width has."""
    model = infinite(ridge=0.3, time=time)
    net = follow(model, time, 1, 0, stages=1)
    found = np.asarray(NARROW.kernel(NEW, net.x).ntk) @ net._limit.learnt(net.y, time)
    np.testing.assert_allclose(found[:, 0], model.predict(NEW), rtol=1e-9)


def test_training_without_end_ends_at_the_least_loss_with_the_ridge():
    key = jax.random.split(jax.random.key(5), 1)[0]
    model, end = infinite(ridge=0.5, time=np.inf), descended(NARROW, key, 0.1, 4000, 0.5)
    errors = [np.abs(follow(model, np.inf, 1, 5, stages=s).predict_members(NEW)[0] - end).max() for s in (4, 64)]
    assert errors[1] < min(0.02, errors[0] / 3)  # networks are 0.25 apart


@pytest.mark.parametrize(("ridge", "steps"), [(0.1, 20_000), (0.02, 100_000)])
def test_a_small_ridge_is_followed_to_where_it_has_faded(ridge, steps):
    """Tangents of 8 units move as far as they are long: what former ones learnt fades long after the data fit."""
    model, errors = infinite(ridge=ridge, time=np.inf), []
    for seed in (5, 6):
        key = jax.random.split(jax.random.key(seed), 1)[0]
        end = descended(NARROW, key, 0.1, steps, ridge)
        errors.append(np.abs(follow(model, np.inf, 1, seed, stages=32).predict_members(NEW)[0] - end).max())
    assert np.max(errors) < 0.02  # networks are 0.25 apart


def test_training_without_end_fits_the_data():
    model = infinite(time=float("inf"), augmentation=None)
    np.testing.assert_allclose(follow(model, np.inf, 2, 0, stages=8).predict_members(X)[..., 0], [Y, Y], atol=0.02)


@pytest.fixture(scope="module")
def plan():
    settings = {"measure": "spread_over_error", "y": np.ones(4), "draws": 200, "seed": 3}
    return plan_ensemble(infinite(), ROT, NEW, 0.3, width="net", pilot=16, **settings)


def test_a_plan_says_what_it_is_made_from(plan):
    assert plan.members >= 1
    assert plan.theory_members >= 1
    assert plan.equivariant
    assert plan.trained is None
    assert plan.pilot.followed
    assert plan.pilot.members == 16
    assert plan.network == "Flatten, Dense 8, Erf, Dense 1"
    assert plan.pilot.variance.low < plan.pilot.variance.value < plan.pilot.variance.high
    text = str(plan)
    for words in (
        "ensembles of that size of networks of these widths",
        "the chance of 16 followed networks and of 200 draws",
        "In place of a pilot: 16 networks, followed in 4 steps in place of",
        "drawn from the mean and covariance of the followed networks' outputs",
        "within 25 % of the members that trained ensembles needed",
    ):
        assert words in text
    assert json.loads(json.dumps(plan.to_dict()))["pilot"]["training"]["stages"] == 4


@pytest.mark.slow
def test_a_pilot_of_trained_networks_has_the_same_spread(plan):
    """The same quantity from 200 networks trained epoch by epoch."""
    pilot = DeepEnsemble(NARROW, 200, augmentation=ROT, optimizer="gd", learning_rate=0.05, epochs=120)
    other = plan_ensemble(infinite(), ROT, NEW, 0.3, pilot=pilot.fit(X, Y), draws=100)
    assert not other.pilot.followed
    error = np.hypot(*((p.pilot.variance.high - p.pilot.variance.low) / 4 for p in (plan, other)))
    assert abs(plan.pilot.variance.value - other.pilot.variance.value) < 3 * error


@pytest.mark.slow
def test_classifiers_are_followed_with_all_their_outputs():
    model = InfiniteEnsembleClassifier(NARROW, augmentation=ROT, time=3.0).fit(X, ["a", "b", "a"])
    net = nn.Sequential(*NARROW.layers[:-1], nn.Dense(2))
    model = InfiniteEnsembleClassifier(net, augmentation=ROT, time=3.0).fit(X, ["a", "b", "a"])
    plan = plan_ensemble(model, ROT, NEW, 0.2, "osp", width="net", pilot=8, draws=100)
    assert plan.pilot.members == 8


def test_what_cannot_be_followed_is_refused():
    ask = lambda model, **settings: plan_ensemble(model, ROT, NEW, width="net", draws=10, **settings)
    model = infinite()
    with pytest.raises(InvalidArgumentError, match="width is 'wide'; expected"):
        plan_ensemble(model, ROT, NEW, width="wide")
    with pytest.raises(InvalidArgumentError, match="which stands for a pilot; leave out data"):
        ask(model, data=(X, Y))
    with pytest.raises(InvalidArgumentError, match="pilot is 2"):
        ask(model, pilot=2)
    with pytest.raises(InvalidTypeError, match="needs a fitted InfiniteEnsemble"):
        ask(DeepEnsemble(NARROW))
    with pytest.raises(InvalidTypeError, match="BaggedInfiniteEnsemble; width"):
        ask(BaggedInfiniteEnsemble(InfiniteEnsemble(NARROW)))
    with pytest.raises(InvalidArgumentError, match="kernel is 'nngp'"):
        ask(infinite(kernel="nngp"))
    with pytest.raises(InvalidArgumentError, match="all copies count alike"):
        ask(infinite(augmentation=actions.subset(ROT, [0, 1], weights=[1, 2])))
    with pytest.raises(MemoryLimitError, match="plan from a pilot"):
        follow(model.set_params(memory_limit=100), 6.0, 4, 0)


@pytest.mark.parametrize(("outputs", "settled"), [(np.full((3, 2, 1), np.nan), False), (np.zeros((3, 2, 1)), True)])
def test_outputs_that_are_no_numbers_are_not_settled(outputs, settled):
    stages, moved = _enough(lambda count: outputs)
    assert Followed(stages, None, moved, 0.0).settled is settled
