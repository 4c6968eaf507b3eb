"""Spreads of predictions over orbits, and how often they are the same."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.errors import InvalidTypeError, NotAnActionError, NotFiniteError, ShapeError
from equitangents.metrics import equivariance_error, orbit_same_predictions, relative_orbit_std, s_dist
from equitangents.metrics.measure import ratio
from equitangents.planning.violations import _excess

rot = actions.image_rotations(4)
D3 = actions.image_dihedral(4)
seeds = st.integers(0, 10**6)


def images(seed=0, n=6):
    return np.random.default_rng(seed).normal(size=(n, 4, 4, 1))


def linear(seed, outputs=3):
    """A function without any symmetry."""
    weights = np.random.default_rng(seed).normal(size=(16, outputs))
    return lambda x: np.asarray(x).reshape(len(x), -1) @ weights


def averaged(f, action):
    return lambda x: np.mean([f(action(g, x)) for g in action.group], axis=0)


class TestOrbitSamePredictions:
    @given(seeds, st.sampled_from([rot, D3, actions.image_rotations(4, mask="circle")]))
    def test_counted_one_by_one(self, seed, action):
        x, f = images(seed), linear(seed)
        got = orbit_same_predictions(f, action, x)
        for i in range(len(x)):
            here = int(np.argmax(f(action(0, x[i : i + 1]))[0]))
            there = [int(np.argmax(f(action(g, x[i : i + 1]))[0])) for g in action.group]
            assert got.values[i] == sum(t == here for t in there)
        assert got.mean == pytest.approx(got.values.mean())

    @given(seeds)
    def test_between_one_and_the_order_of_the_group(self, seed):
        x, f = images(seed), linear(seed)
        values = orbit_same_predictions(f, D3, x).values
        assert ((values >= 1) & (values <= 8)).all()
        np.testing.assert_array_equal(orbit_same_predictions(averaged(f, D3), D3, x).values, 8)

    def test_only_the_prediction_counts(self):
        f = linear(0)
        expected = orbit_same_predictions(f, rot, images()).values
        monotone = orbit_same_predictions(lambda x: np.exp(3 * f(x) + 1), rot, images()).values
        np.testing.assert_array_equal(monotone, expected)

    def test_jax_functions_and_inputs(self):
        weights = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
        f = lambda x: jnp.asarray(x).reshape(len(x), -1) @ weights
        x = images().astype(np.float32)
        expected = orbit_same_predictions(lambda x: x.reshape(len(x), -1) @ weights, rot, x).values
        np.testing.assert_array_equal(orbit_same_predictions(f, rot, jnp.asarray(x)).values, expected)

    @pytest.mark.parametrize("f", [lambda x: x.sum((1, 2, 3)), lambda x: x.sum((1, 2)), lambda x: x])
    def test_scores_of_two_classes_at_least(self, f):
        with pytest.raises(ShapeError, match=r"expected class scores \(N, K\) with K ≥ 2.*np.stack\(\[-y, y\]"):
            orbit_same_predictions(f, rot, images())


class TestRelativeOrbitStd:
    @given(seeds, st.integers(1, 4), st.sampled_from([rot, D3]))
    def test_of_vectors_by_definition(self, seed, outputs, action):
        x, f = images(seed), linear(seed, outputs)
        values = relative_orbit_std(f, action, x).values
        for i in range(len(x)):
            orbit = np.array([f(action(g, x[i : i + 1]))[0] for g in action.group])
            assert values[i] == pytest.approx(np.linalg.norm(orbit.std(axis=0)) / np.linalg.norm(orbit.mean(axis=0)))

    @given(seeds, st.floats(-1e3, 1e3).filter(lambda c: abs(c) > 1e-3))
    def test_the_scale_does_not_matter(self, seed, scale):
        x, f = images(seed), linear(seed)
        expected = relative_orbit_std(f, rot, x).values
        np.testing.assert_allclose(relative_orbit_std(lambda x: scale * f(x), rot, x).values, expected, rtol=1e-10)

    def test_zero_for_what_is_constant_on_orbits(self):
        x = images()
        np.testing.assert_array_equal(relative_orbit_std(lambda x: np.full((len(x), 2), 0.1), rot, x).values, 0)
        np.testing.assert_allclose(relative_orbit_std(averaged(linear(0), rot), rot, x).values, 0, atol=1e-14)

    def test_about_a_mean_of_zero(self):
        nothing = relative_orbit_std(lambda x: np.zeros((len(x), 2)), rot, images())
        np.testing.assert_array_equal(nothing.values, 0)
        sign = actions.linear(groups.cyclic(2), np.array([[[1.0]], [[-1.0]]]))
        spread = relative_orbit_std(lambda x: x, sign, np.array([[1.0], [2.0], [0.0]]))
        np.testing.assert_array_equal(spread.values, [np.inf, np.inf, 0])
        assert spread.mean == np.inf
        assert np.isnan(spread.interval).all()
        six = relative_orbit_std(lambda x: x, sign, np.array([[1.0], [2.0], [0.0]] * 2))
        assert np.isnan(six.interval).all()

    def test_neither_overflow_nor_underflow(self):
        f = linear(0)
        expected = relative_orbit_std(f, rot, images()).values
        for scale in (1e200, 1e-200):
            got = relative_orbit_std(lambda x, scale=scale: scale * f(x), rot, images()).values
            np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("measure", [orbit_same_predictions, relative_orbit_std])
class TestBadInput:
    def test_function(self, measure):
        class Model:
            def predict(self, x):
                return x

        with pytest.raises(InvalidTypeError, match="f is 3; expected a callable"):
            measure(3, rot, images())
        with pytest.raises(InvalidTypeError, match="pass its predict method"):
            measure(Model(), rot, images())

    def test_action(self, measure):
        with pytest.raises(InvalidTypeError, match="action is 4; expected an action"):
            measure(linear(0), 4, images())

    def test_outputs(self, measure):
        with pytest.raises(ShapeError, match="f gives rows, 2; expected 6"):
            measure(lambda x: np.ones((2, 3)), rot, images())
        with pytest.raises(NotFiniteError, match=r"f\(x\) holds NaN"):
            measure(lambda x: linear(0)(x) * np.nan, rot, images())

    def test_inputs(self, measure):
        with pytest.raises(NotFiniteError, match="x holds NaN"):
            measure(linear(0), rot, images() * np.nan)
        with pytest.raises(ShapeError, match="x has"):
            measure(linear(0), rot, np.ones((3, 4)))


@pytest.mark.parametrize("bandlimit", [2, 3, 4, 5])
def test_no_change_of_the_class_is_exactly_the_whole_group(bandlimit):
    """However the weights of the quadrature add up in floating point."""
    rotations = actions.rotations(groups.so3(bandlimit))
    x = np.random.default_rng(0).normal(size=(3, 3))
    lengths = lambda x: np.stack([np.zeros(len(x)), np.ones(len(x))], axis=1)
    assert orbit_same_predictions(lengths, rotations, x).values.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("quotient", [ratio, _excess])
def test_what_is_not_a_number_does_not_count_as_nothing(quotient):
    a, b = np.array([np.nan, 1.0, np.nan, 0.0, 1.0]), np.array([np.nan, np.nan, 2.0, 0.0, 0.0])
    assert np.array_equal(quotient(a, b), [np.nan, np.nan, np.nan, 0.0, np.inf], equal_nan=True)


MATRIX = np.random.default_rng(1).normal(size=(3, 2))


def scores(x):
    return np.tanh(x @ MATRIX) + 0.1


@pytest.mark.parametrize("group", [groups.so3(3), groups.o3(3)], ids=str)
def test_means_over_rotations_are_weighted(group):
    action, x = actions.rotations(group), np.random.default_rng(2).normal(size=(7, 3))
    w = group.weights
    assert np.ptp(w) > 1e-3, "unequal weights, or nothing is tested"
    orbit = np.stack([scores(x @ R.T) for R in group.matrices])
    same = w @ (orbit.argmax(axis=2) == scores(x).argmax(axis=1))
    np.testing.assert_allclose(orbit_same_predictions(scores, action, x).values, same, atol=1e-12)
    mean = np.einsum("g,gnk->nk", w, orbit)
    spread = np.sqrt(np.einsum("g,gnk->nk", w, (orbit - mean) ** 2))
    expected = np.linalg.norm(spread, axis=1) / np.linalg.norm(mean, axis=1)
    np.testing.assert_allclose(relative_orbit_std(scores, action, x).values, expected, rtol=1e-10)
    errors = np.linalg.norm(orbit - scores(x), axis=2) / np.linalg.norm(scores(x), axis=1)
    np.testing.assert_allclose(equivariance_error(scores, action, x).values, w @ errors, rtol=1e-10)


ROT = actions.image_rotations(4)
X = np.random.default_rng(0).normal(size=(5, 3, 3, 1))


def test_a_model_that_works_in_place_is_measured_like_one_that_does_not():
    plain = lambda x: (2 * x)[:, :2, 0, 0]
    in_place = lambda x: np.multiply(x, 2, out=x)[:, :2, 0, 0]
    x = X.copy()
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        np.testing.assert_array_equal(measure(in_place, ROT, x).values, measure(plain, ROT, X).values)
    assert s_dist(in_place, plain, x).mean == 0
    np.testing.assert_array_equal(x, X)


def test_maps_that_are_no_action_are_refused():
    drift = actions.from_function(groups.cyclic(2), lambda g, x: x + g, name="drift")
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        with pytest.raises(NotAnActionError, match=r"drift.* is off by"):
            measure(lambda x: x[:, :2, 0, 0], drift, X)
    grows = actions.from_function(groups.cyclic(4), lambda g, x: x * (1 + g), name="grows")
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        with pytest.raises(NotAnActionError, match="grows"):  # on zeros it looks like one
            measure(lambda x: x[:, :2, 0, 0], grows, np.concatenate([0 * X, X]))
