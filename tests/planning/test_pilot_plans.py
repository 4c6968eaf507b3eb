"""Plans of trained networks, from a pilot whose intervals hold trained ensembles."""

import json

import numpy as np
import pytest

from equitangents import DeepEnsemble, DeepEnsembleClassifier, actions, groups, metrics, nn, plan_ensemble
from equitangents.ensembles.orbits import orbit_batch
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFittedError
from equitangents.planning.pilot import PilotDraws
from planning.test_plan_ensemble import ROT, mlp, task


def ensemble(members=20, seed=0, width=16, **settings):
    settings = {"augmentation": ROT, "optimizer": "gd", "learning_rate": 0.2, "epochs": 30, **settings}
    return DeepEnsemble(mlp(width), members, seed=seed, **settings)


NEW = task(seed=9, n=6)[0]


@pytest.fixture(scope="module")
def trained():
    """20 networks to be the pilot, and 160 that no plan has seen."""
    return ensemble().fit(*task()), ensemble(160, seed=1).fit(*task())


@pytest.fixture(scope="module")
def plan(trained):
    return plan_ensemble(trained[0], ROT, NEW, target=0.02, draws=1000)


def relative_stds(others, size):
    """Of disjoint ensembles of `size`."""
    f = others.predict_members(orbit_batch(ROT, NEW)).astype(float).reshape(160 // size, size, 6, 4).mean(axis=1)
    return (f.std(axis=2) / abs(f.mean(axis=2))).mean(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 8])
def test_nine_of_ten_trained_ensembles_lie_in_the_interval(plan, trained, size):
    point, values = plan.violation(size), relative_stds(trained[1], size)
    assert ((point.lower <= values) & (values <= point.upper)).mean() >= 0.85
    assert (values <= point.upper).mean() >= 0.9
    assert point.upper / point.lower < 6


@pytest.mark.slow
def test_a_network_and_data_are_planned_for_by_a_pilot_of_twenty():
    plan = plan_ensemble(mlp(8), ROT, NEW, 0.05, data=task(), draws=100)
    assert (plan.pilot.members, plan.pilot.epochs) == (20, 100)
    assert plan.pilot.seconds > 0
    assert plan.group == "C4"
    assert plan.equivariant
    assert plan.limit == plan.limit_upper == pytest.approx(0, abs=1e-12)
    assert "20 networks" in str(plan)


def test_a_fitted_ensemble_is_its_own_pilot_and_can_be_extended(plan, trained):
    assert plan.trained is trained[0]
    assert (plan.pilot.members, plan.pilot.seconds) == (20, None)
    first = plan_ensemble(ensemble(), ROT, NEW, 0.05, data=task(), pilot=4, draws=50)
    longer = first.trained.extend(6, *task())
    np.testing.assert_array_equal(longer.predict_members(NEW)[:4], ensemble(4).fit(*task()).predict_members(NEW))


@pytest.mark.slow
def test_without_augmentation_the_limit_is_that_of_many_networks():
    plan = plan_ensemble(ensemble(augmentation=None), ROT, NEW, 0.01, data=task(), draws=400)
    assert not plan.equivariant
    assert (plan.members, plan.outcome, plan.augmentation_order) == (None, "limit misses the target", 1)
    many = ensemble(300, seed=5, augmentation=None).fit(*task())
    limit = metrics.relative_orbit_std(many.predict, ROT, NEW).mean
    assert plan._violations.limit(0.025) < limit < plan._violations.limit(0.975)


TURNS = actions.linear(groups.cyclic(4), np.stack([np.linalg.matrix_power([[0, -1], [1, 0]], g) for g in range(4)]))


@pytest.mark.slow
def test_the_mean_is_equivariant_only_if_training_is():
    half = ensemble(5, augmentation=actions.subset(ROT, [0, 2])).fit(*task())
    assert not plan_ensemble(half, ROT, NEW, 0.5, draws=20).equivariant
    adam = ensemble(5, optimizer="adam", learning_rate=0.01).fit(*task())
    assert plan_ensemble(adam, ROT, NEW, 0.5, draws=20).equivariant  # turns permute pixels, and so weights


@pytest.mark.slow
def test_the_mean_is_not_equivariant_where_the_network_or_the_optimizer_minds_the_action():
    uneven = nn.Sequential(nn.Conv(4, (2, 2), padding="zero"), nn.Relu(), nn.Flatten(), nn.Dense(1))
    odd = DeepEnsemble(uneven, 5, ROT, optimizer="gd", epochs=2).fit(*task(side=3))
    assert not plan_ensemble(odd, ROT, task(side=3)[0], 0.5, draws=20).equivariant
    vectors, y = np.random.default_rng(0).normal(size=(8, 2)), np.ones(8)
    bent = DeepEnsemble(mlp(8), 5, TURNS, optimizer="adam", epochs=2).fit(vectors, y)
    assert not plan_ensemble(bent, TURNS, vectors, 0.5, draws=20).equivariant


@pytest.mark.slow
def test_outputs_that_move_are_carried_back():
    x = np.random.default_rng(0).normal(size=(12, 2))
    y = x * np.linalg.norm(x, axis=1, keepdims=True)
    settings = {"augmentation": TURNS, "label_action": TURNS, "optimizer": "gd", "learning_rate": 0.3, "epochs": 20}
    pilot = DeepEnsemble(mlp(16, 2), 20, **settings).fit(x, y)
    plan = plan_ensemble(pilot, TURNS, x + 0.1, 0.05, "equivariance_error", output_action=TURNS, draws=500)
    assert plan.equivariant
    assert plan.limit < 1e-12
    others = DeepEnsemble(mlp(16, 2), 5, seed=3, **settings).fit(x, y)
    error = metrics.equivariance_error(others.predict, TURNS, x + 0.1, TURNS).mean
    point = plan.violation(5)
    assert point.lower / 1.5 < error < 1.5 * point.upper


@pytest.mark.slow
def test_classifiers_are_measured_by_what_they_predict():
    """Trained by cross entropy the prediction is the mean of probabilities: that of a sure member counts for more."""
    x, _ = task(n=12)
    labels = np.array(list("abc" * 4))
    pilot = DeepEnsembleClassifier(mlp(16, 3), 20, ROT, optimizer="gd", learning_rate=0.5, epochs=30).fit(x, labels)
    plan = plan_ensemble(pilot, ROT, NEW, 0.2, "osp", draws=500)
    others = DeepEnsembleClassifier(mlp(16, 3), 8, ROT, optimizer="gd", learning_rate=0.5, epochs=30, seed=1)
    same = metrics.orbit_same_predictions(others.fit(x, labels).predict_proba, ROT, NEW).mean
    point = plan.violation(8)
    assert point.lower - 0.05 <= 1 - same / 4 <= point.upper + 0.05
    wrong = plan_ensemble(pilot, ROT, NEW, 5.0, "error", y=list("abcabc"), draws=100)
    assert wrong.members is not None


def test_errors_are_planned_for_from_a_pilot(trained):
    plan = plan_ensemble(trained[0], ROT, NEW, 0.3, "error", y=np.full(6, 1.7), draws=500)
    f = trained[1].predict_members(NEW).astype(float)[..., 0]
    error = ((f.reshape(40, 4, 6).mean(axis=1) - 1.7) ** 2).mean(axis=1)
    excess = error / ((f.mean(axis=0) - 1.7) ** 2).mean() - 1
    point = plan.violation(4)
    assert ((point.lower <= excess) & (excess <= point.upper)).mean() >= 0.85


def test_a_law_has_the_size_of_its_pilots_mean_without_noise_and_the_variance_of_its_networks():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(40, 1, 2))
    networks = signal + 2.0 * rng.normal(size=(10, 40, 4, 2))
    law = PilotDraws(networks, ROT.group, None, True, None, rng).law(2000)
    means = law.ensembles(np.inf)
    assert (means**2).sum(axis=(1, 2, 3)).mean() / 4 == pytest.approx((signal**2).sum(), rel=0.15)
    np.testing.assert_array_equal(means[:, :, 0], means[:, :, 2])
    assert (law.fluctuations**2).mean() == pytest.approx(4.0, rel=0.05)


def test_a_mean_that_the_pilot_does_not_show_is_no_mean_of_nothing():
    """Networks without a common signal: a plan is large and uncertain, and not that no number of members suffices."""
    rng = np.random.default_rng(0)
    law = PilotDraws(rng.normal(size=(8, 30, 4, 1)), ROT.group, None, True, None, rng).law(500)
    size = (law.ensembles(np.inf) ** 2).mean()
    assert 1 / 8**2 / 3 < size / (1 / 4) < 1 / 8


def test_the_table_and_the_file_name_group_and_outcome(plan, tmp_path):
    written = json.loads(plan.to_json(tmp_path / "plan.json").read_text())
    assert written["outcome"] == plan.outcome == "met"
    for name in ("group", "outcome"):
        assert getattr(plan, name) in str(plan)
        assert written[name] == getattr(plan, name)
    assert "95.0% below" in str(plan)


class Nothing:
    pass


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"data": None}, InvalidArgumentError, "data is None"),
        ({"data": np.zeros(3)}, InvalidTypeError, r"data is of type ndarray; expected \(X, y\)"),
        ({"time": 3.0}, InvalidArgumentError, "time is 3.0"),
        ({"pilot": 2}, InvalidArgumentError, "pilot is 2"),
        ({"pilot": "some"}, InvalidTypeError, "pilot is 'some'"),
        ({"ensemble": Nothing()}, InvalidTypeError, "a network with data"),
        ({"ensemble": ensemble(), "data": None}, NotFittedError, "data is None"),
        ({"ensemble": ensemble(learning_rate=90.0, epochs=60)}, InvalidArgumentError, "diverged"),
        ({"draws": 1}, InvalidArgumentError, "draws"),
        ({"confidence": 1.0}, InvalidArgumentError, "confidence"),
    ],
)
def test_bad_arguments_are_named(change, error, said):
    arguments = {"ensemble": mlp(8), "action": ROT, "x": NEW, "data": task(), "pilot": 4, **change}
    with pytest.raises(error, match=said):
        plan_ensemble(**arguments)
