"""What theory expects of M networks on orbits: laws of Gaussian orbits, agreement with the measures of functions."""

import jax
import numpy as np
import pytest

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, actions, groups, metrics, nn
from equitangents.ensembles.orbits import OrbitMeasures, OrbitStatistic, orbit_batch, quantile_interval
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, ShapeError
from equitangents.metrics.on_orbits import carried_back, predicted_classes, relative_std, std_norm

ROT = actions.image_rotations(4)
CYCLE = actions.linear(groups.cyclic(3), np.stack([np.roll(np.eye(3), g, 0) for g in range(3)]))
FLIP = actions.linear(groups.cyclic(2), np.array([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]]))
# On three outputs, not orthogonal: a flip seen in a skewed basis.
SKEWED = actions.linear(groups.cyclic(2), np.stack([np.eye(3), [[1, 0, 0], [2, -1, 0], [0, 0, 1]]]).astype(float))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=1.5, b_std=0.3), nn.Relu(), nn.Dense(1))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, 3, 3, 1)), rng.normal(size=(9, 2)) + 1
    return InfiniteEnsemble(mlp(), augmentation=ROT, time=3.0).fit(x, y), rng.normal(size=(5, 3, 3, 1))


def lookup(points, outputs):
    """The function that takes each of `points` to its row of `outputs`."""
    table = {p.round(9).tobytes(): y for p, y in zip(points + 0.0, outputs, strict=True)}
    return lambda x: np.stack([table[p.round(9).tobytes()] for p in np.asarray(x) + 0.0])


@pytest.mark.parametrize(
    ("action", "output_action", "outputs"),
    [(ROT, None, 3), (CYCLE, CYCLE, 3), (FLIP, SKEWED, 3), (FLIP, None, 1)],
    ids=["images", "moving outputs", "not orthogonal", "one output"],
)
def test_measures_are_those_of_equitangents_metrics(action, output_action, outputs):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 3, 3, 1) if action is ROT else (6, len(action.matrices[0])))
    order, group = action.group.order, action.group
    f = rng.normal(size=(4, 6, order, outputs))
    measures = OrbitMeasures(group.identity, output_action)
    for draw in range(4):
        function = lookup(orbit_batch(action, x), f[draw].reshape(-1, outputs))
        error = metrics.equivariance_error(function, action, x, output_action)
        np.testing.assert_allclose(measures.of("equivariance_error", f)[draw], error.values, rtol=1e-12)
        back = [f[draw, :, g] for g in range(order)]
        if output_action is not None:
            back = [back[g] @ output_action.matrices[group.inverse(g)].T for g in range(order)]
        carried = lookup(orbit_batch(action, x), np.stack(back, axis=1).reshape(-1, outputs))
        std_norm = metrics.relative_orbit_std(carried, action, x)
        np.testing.assert_allclose(measures.of("rsd", f)[draw], std_norm.values, rtol=1e-12)
        scores = carried if outputs > 1 else lambda x, c=carried: np.concatenate([-c(x), c(x)], axis=1)
        same = metrics.orbit_same_predictions(scores, action, x)
        np.testing.assert_array_equal(measures.of("osp", f)[draw], same.values)


def test_ratios_of_nothing():
    z = np.array([[[0.0], [0.0]], [[1.0], [-1.0]], [[0.1], [0.1]]])
    np.testing.assert_array_equal(relative_std(z), [0.0, np.inf, 0.0])
    assert carried_back(None, z) is z


def test_same_signs_of_an_untrained_network_are_arcsines():
    """P(sign f(x) = sign f(gx)) = 1/2 + arcsin(r)/π for jointly normal outputs of correlation r and mean 0."""
    x = np.array([[1.0, 0.5], [0.2, 1.0], [2.0, 0.1]])
    model = InfiniteEnsemble(mlp(), time=0.0).fit(x, np.zeros(3))
    drawn = model.orbit_statistics(FLIP, x, [1, 50], draws=20_000).osp
    K = mlp().kernel(np.concatenate([x, x * [-1.0, 1.0]])).nngp
    r = np.array([K[i, i + 3] / np.sqrt(K[i, i] * K[i + 3, i + 3]) for i in range(3)])
    expected = 1.5 + np.arcsin(r) / np.pi
    for per_input in drawn.values.mean(axis=1):
        assert np.all(abs(per_input - expected) < 4.5 * 0.5 / np.sqrt(20_000))


@pytest.mark.slow
def test_expected_error_is_bias_plus_variance_over_members(fitted):
    model, x = fitted
    y = np.ones((5, 2))
    statistics = model.orbit_statistics(ROT, x, [1, 4, 9], y=y, draws=20_000).error
    mean, std = model.predict(x, return_std=True)
    for m, drawn, values in zip([1, 4, 9], statistics.expected, statistics.of_ensembles, strict=True):
        expected = np.mean(((mean - y) ** 2).sum(axis=1) + 2 * std**2 / m)
        assert abs(drawn - expected) < 4.5 * values.std() / np.sqrt(20_000)
    low, high = statistics.expected_interval.T
    assert np.all((low < statistics.expected) & (statistics.expected < high))
    assert np.all((high - low) < np.diff(statistics.interval).ravel() / 20)


def test_joint_draws_keep_inputs_together():
    """Twice the same input: its two values are equal in every ensemble, not only in law."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4, 3))
    model = InfiniteEnsemble(mlp(), time=1.0).fit(x, rng.normal(size=4))
    values = model.orbit_statistics(CYCLE, x[[0, 0]], [3], draws=50).rsd.values
    np.testing.assert_allclose(values[..., 0], values[..., 1], rtol=1e-4)
    assert values[..., 0].std() > 0.01


def test_more_members_are_more_equivariant_and_infinitely_many_are_perfect(fitted):
    model, x = fitted
    statistics = model.orbit_statistics(ROT, x, [1, 10, 100, 10**12], draws=300, seed=jax.random.key(2))
    assert np.all(np.diff(statistics.rsd.expected) < 0)
    assert np.all(np.diff(statistics.osp.expected) >= 0)
    assert statistics.rsd.expected[-1] < 1e-5
    assert statistics.osp.expected[-1] == 4.0


def test_equivariant_outputs_need_their_action():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    model = InfiniteEnsemble(mlp(), augmentation=CYCLE, label_action=CYCLE, time=5.0).fit(x, y)
    new = rng.normal(size=(4, 3))
    moving = model.orbit_statistics(CYCLE, new, [10**12], output_action=CYCLE, draws=20)
    assert moving.rsd.expected[0] < 1e-5
    assert moving.equivariance_error.expected[0] < 1e-5
    still = model.orbit_statistics(CYCLE, new, [10**12], draws=20)
    assert still.rsd.expected[0] > 0.1
    assert still.equivariance_error.expected[0] > 0.1


def test_classifiers_err_where_the_largest_mean_output_is_not_the_label():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(12, 3, 3, 1)), np.array(list("abc" * 4))
    model = InfiniteEnsembleClassifier(mlp(), time=2.0).fit(x, y)
    new, labels = rng.normal(size=(8, 3, 3, 1)), np.array(list("aabbccab"))
    statistics = model.orbit_statistics(ROT, new, [10**12], y=labels, draws=10)
    assert statistics.error.expected[0] == 1 - model.score(new, labels)
    same = metrics.orbit_same_predictions(model.ensemble_.predict, ROT, new)
    np.testing.assert_array_equal(statistics.osp.values[0].mean(axis=0), same.values)
    with pytest.raises(InvalidArgumentError, match="the labels of fit"):
        model.orbit_statistics(ROT, new, y=np.array(list("aabbccaz")))


def test_tables_say_what_was_asked(fitted):
    model, x = fitted
    statistics = model.orbit_statistics(ROT, x, [1, 25], draws=30, y=np.zeros((5, 2)))
    text = str(statistics)
    for part in ("5 inputs", "4 elements", "30 ensembles", "relative orbit std", "M = 25", "median across ensembles"):
        assert part in text
    for one in (statistics.rsd, statistics.osp, statistics.equivariance_error, statistics.error):
        assert ((one.interval[:, 0] <= one.expected) & (one.expected <= one.interval[:, 1])).all()
    assert model.orbit_statistics(ROT, x, [1], draws=5).error is None


@pytest.mark.parametrize(("draws", "q"), [(200, 0.99), (50, 0.95), (50, 0.05), (2, 0.5)])
def test_quantile_intervals_cover_where_draws_are_few_for_the_quantile(draws, q):
    rng = np.random.default_rng(1)
    ends = np.array([quantile_interval(rng.uniform(size=draws), q, 0.95) for _ in range(400)])
    assert ((ends[:, 0] <= q) & (q <= ends[:, 1])).mean() >= 0.93


def test_a_median_of_two_draws_has_no_bounds_but_those_of_its_measure():
    assert quantile_interval(np.array([1.0, 2.0]), 0.5, 0.95) == (-np.inf, np.inf)
    few = OrbitStatistic("relative orbit std", (3,), np.array([[[0.3], [0.4]]]), 0.95, "median")
    assert few.expected_interval.tolist() == [[0.0, np.inf]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"members": []}, InvalidArgumentError, "expected a list of ensemble sizes"),
        ({"members": [0]}, InvalidArgumentError, "members is 0"),
        ({"members": 1.5}, InvalidTypeError, "members is 1.5"),
        ({"draws": 1}, InvalidArgumentError, "draws is 1"),
        ({"confidence": 1.0}, InvalidArgumentError, "confidence is 1.0"),
        ({"seed": "x"}, InvalidTypeError, "'x'"),
        ({"time": [1.0, 2.0]}, InvalidArgumentError, "one time"),
        ({"action": None}, InvalidTypeError, "action is None"),
        ({"output_action": CYCLE}, InvalidArgumentError, "output_action is of <group C3.*; the group of action"),
        ({"y": np.zeros((4, 2))}, ShapeError, "rows"),
        ({"y": np.zeros((5, 3))}, ShapeError, "length 3; expected 2"),
        ({"draws": 10**12}, MemoryLimitError, "fewer inputs or draws"),
    ],
)
def test_bad_arguments_are_named(fitted, change, error, message):
    model, x = fitted
    arguments = {"action": ROT, "x": x, **change}
    with pytest.raises(error, match=message):
        model.orbit_statistics(**arguments)


@pytest.mark.parametrize("order", [2, 4])
def test_draws_that_do_not_fit_are_refused_whoever_would_draw_them(fitted, monkeypatch, order):
    model, x = fitted
    monkeypatch.setattr(model, "memory_limit", 10**5)
    with pytest.raises(MemoryLimitError, match=f"2000 draws on 5 orbits of {order} points needs"):
        model.orbit_statistics(actions.image_rotations(order), x, draws=2000)


def test_expected_agreement_keeps_within_what_agreement_can_be():
    draws = np.full((1, 40, 1), 4.0)
    draws[0, 0] = 3.0
    few = OrbitStatistic("orbit same predictions", (3,), draws, 0.95, "mean", bounds=(1.0, 4.0))
    low, high = few.expected_interval[0]
    assert low < few.expected[0] < high == 4.0
    measures = OrbitMeasures(0, None, np.array([0, 1]))
    assert measures.bounds("osp", 8) == (1.0, 8.0)
    assert measures.bounds("error", 8) == (0.0, 1.0)
    assert OrbitMeasures(0, None, None).bounds("rsd", 8) == (0.0, np.inf)


def test_an_interval_leaves_half_of_the_rest_out_on_either_side():
    statistic = OrbitStatistic("osp", (1,), np.arange(1.0, 101.0).reshape(1, 100, 1), 0.9, "mean")
    np.testing.assert_array_equal(statistic.interval, [[5, 95]])
    np.testing.assert_array_equal(predicted_classes(np.array([[-1.0], [0.0], [2.0]])), [0, 0, 1])


def test_constants_have_no_spread_and_a_spread_is_the_norm_of_the_standard_deviations(rng):
    z = rng.normal(size=(5, 3, 4, 2))
    still = np.broadcast_to(z[:, :, :1], z.shape)
    for constant in (still, 0 * still, 1e150 * still):
        assert np.array_equal(std_norm(constant), np.zeros((5, 3)))
        assert np.array_equal(relative_std(constant), np.zeros((5, 3)))
    expected = np.linalg.norm(z.std(axis=2), axis=-1)
    np.testing.assert_allclose(std_norm(z), expected)
    np.testing.assert_allclose(relative_std(z), expected / np.linalg.norm(z.mean(axis=2), axis=-1))
    assert np.all(relative_std(np.stack([z, -z], axis=2).reshape(5, 3, 8, 2)[:, :, [0, 4]]) == np.inf)
