"""The equivariance error by its definition, distances of two functions, intervals of means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.metrics import equivariance_error, s_dist
from equitangents.statistics import mean_interval

octahedral = groups.octahedral()
turn = actions.rotations(octahedral)
seeds = st.integers(0, 10**6)


def vectors(seed=0, n=5):
    return np.random.default_rng(seed).normal(size=(n, 3))


def cubes(x):
    """Commutes with the rotations of the cube, and with no others."""
    return x**3


def skewed(x):
    return x**3 + 0.1 * x[:, [1, 2, 0]] + np.array([0.0, 0.0, 0.2])


class TestDefinition:
    @pytest.mark.slow
    @given(seeds)
    def test_one_by_one(self, seed):
        x = vectors(seed)
        result = equivariance_error(skewed, turn, x, output_action=turn)
        assert result.errors.shape == (24, 5)
        for g in (0, 3, 17):
            for i in range(5):
                R = octahedral.matrices[g]
                difference = skewed((R @ x[i])[None])[0] - R @ skewed(x[i : i + 1])[0]
                expected = np.linalg.norm(difference) / np.linalg.norm(skewed(x[i : i + 1])[0])
                assert result.errors[g, i] == pytest.approx(expected, abs=1e-14)
        np.testing.assert_allclose(result.values, result.errors.mean(axis=0))
        assert result.mean == pytest.approx(result.errors.mean())
        assert result.worst.error == result.errors.max() == result.errors[result.worst.element, result.worst.index]

    @pytest.mark.slow
    @given(seeds)
    def test_nothing_for_equivariant_functions(self, seed):
        x = vectors(seed)
        assert equivariance_error(cubes, turn, x, output_action=turn).worst.error < 1e-14
        assert equivariance_error(lambda x: (x**2).sum(axis=1), turn, x).worst.error < 1e-14

    def test_without_an_output_action_invariance_is_asked_for(self):
        x = vectors()
        trivial = actions.trivial(octahedral)
        expected = equivariance_error(cubes, turn, x, output_action=trivial).errors
        np.testing.assert_array_equal(equivariance_error(cubes, turn, x).errors, expected)
        assert expected.max() > 0.1

    def test_who_acts_first_matters_in_a_group_that_does_not_commute(self):
        """f(x) = ρ(h)x is equivariant under what commutes with h alone."""
        h = next(g for g in octahedral if octahedral.compose(g, g) == octahedral.identity != g)
        result = equivariance_error(lambda x: turn(h, x), turn, vectors(), output_action=turn)
        commutes = np.array([octahedral.compose(g, h) == octahedral.compose(h, g) for g in octahedral])
        np.testing.assert_array_equal(result.errors.mean(axis=1) < 1e-12, commutes)

    def test_outputs_of_one_axis(self):
        C2 = groups.cyclic(2)
        flip = actions.linear(C2, np.stack([np.eye(3), -np.eye(3)]))
        sign = actions.linear(C2, np.array([[[1.0]], [[-1.0]]]))
        assert equivariance_error(lambda x: x.sum(axis=1), flip, vectors(), output_action=sign).worst.error == 0
        np.testing.assert_allclose(equivariance_error(lambda x: x.sum(axis=1), flip, vectors()).values, [1] * 5)

    def test_images_to_images(self):
        rot, masked = actions.image_rotations(4), actions.image_rotations(4, mask="circle")
        x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
        assert equivariance_error(lambda x: (x**2).sum((1, 2)), masked, x).worst.error < 1e-14
        assert equivariance_error(lambda x: x**2, rot, x, output_action=rot).worst.error == 0
        assert equivariance_error(lambda x: x * np.arange(4)[:, None], rot, x, output_action=rot).worst.error > 0.1


def test_where_the_function_vanishes():
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert equivariance_error(lambda x: 0 * x, turn, x, output_action=turn).worst.error == 0
    first = equivariance_error(lambda x: np.maximum(x, 0)[:, :1], turn, -x)
    np.testing.assert_array_equal(first.values, [0, np.inf])
    assert first.worst.error == np.inf


class TestBadInput:
    def test_groups(self):
        with pytest.raises(InvalidArgumentError, match="the group of action"):
            equivariance_error(cubes, turn, vectors(), output_action=actions.trivial(groups.cyclic(2)))

    def test_types(self):
        with pytest.raises(InvalidTypeError, match="output_action is 'vector'"):
            equivariance_error(cubes, turn, vectors(), output_action="vector")
        with pytest.raises(InvalidTypeError, match="f is None"):
            equivariance_error(None, turn, vectors())

    def test_shapes(self):
        with pytest.raises(ShapeError, match="x has"):
            equivariance_error(cubes, turn, np.ones((2, 4)))
        with pytest.raises(ShapeError):
            equivariance_error(lambda x: x[:, :2], turn, vectors(), output_action=turn)

    def test_intervals(self):
        for wrong in ({"confidence": 1.0}, {"resamples": 0}, {"seed": -1}):
            with pytest.raises(InvalidArgumentError, match=f"{next(iter(wrong))} is"):
                equivariance_error(cubes, turn, vectors(), **wrong)


values = st.lists(st.floats(-100, 100), min_size=1, max_size=20)


class TestBootstrap:
    @given(values, st.floats(0.5, 0.99))
    def test_around_the_mean_and_reproducible(self, sample, confidence):
        low, high = mean_interval(sample, confidence=confidence, resamples=200)
        same = mean_interval(sample, confidence=confidence, resamples=200)
        np.testing.assert_array_equal((low, high), same)
        if len(sample) < 5 or np.ptp(sample) <= 1e-13 * np.abs(sample).max():
            assert np.isnan([low, high]).all()
            return
        assert low < np.mean(sample) < high
        wider = mean_interval(sample, confidence=0.995, resamples=200)
        assert wider[0] <= low <= high <= wider[1]

    @pytest.mark.parametrize("sample", [[3.0], [1.0, 2.0, 3.0, 4.0], [2.0] * 50, [1.0, 2, 3, 4, np.inf]])
    def test_too_few_equal_or_infinite_values_give_no_interval_instead_of_a_false_one(self, sample):
        assert np.isnan(mean_interval(sample)).all()

    @pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e150])
    def test_it_has_the_unit_of_its_values(self, scale):
        sample = np.random.default_rng(2).lognormal(size=9)
        np.testing.assert_allclose(mean_interval(scale * sample), scale * np.array(mean_interval(sample)), rtol=1e-9)


class TestDistance:
    @given(st.integers(0, 10**6))
    def test_by_definition(self, seed):
        x = np.random.default_rng(seed).normal(size=(7, 3))
        f1, f2 = lambda x: x**2, lambda x: np.sin(x)
        result = s_dist(f1, f2, x)
        expected = [sum((f1(a) - f2(a)) ** 2) for a in x]
        np.testing.assert_allclose(result.values, expected, rtol=1e-12)
        assert float(result) == result.mean == pytest.approx(np.mean(expected))
        assert result.interval[0] <= result.mean <= result.interval[1]
        assert result.interval[0] >= 0
        np.testing.assert_allclose(s_dist(f2, f1, x).values, expected, rtol=1e-12)
        assert s_dist(f1, f1, x).mean == 0

    def test_outputs_of_one_axis(self):
        x = np.arange(4.0)[:, None]
        np.testing.assert_array_equal(s_dist(lambda x: x[:, 0], lambda x: 0 * x[:, 0], x).values, [0, 1, 4, 9])

    def test_shapes_must_agree(self):
        with pytest.raises(ShapeError, match=r"f2 gives shape \(4,\); expected \(4, 1\)"):
            s_dist(lambda x: x, lambda x: x[:, 0], np.ones((4, 1)))
