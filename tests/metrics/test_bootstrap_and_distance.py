import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import ShapeError
from equitangents.metrics import s_dist
from equitangents.statistics import mean_interval

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

    def test_quantiles_are_values(self):
        result = s_dist(lambda x: x, lambda x: 0 * x, np.arange(5.0)[:, None])
        np.testing.assert_array_equal(result.quantiles([0.0, 0.5, 1.0]), [0, 4, 16])

    def test_outputs_of_one_axis(self):
        x = np.arange(4.0)[:, None]
        np.testing.assert_array_equal(s_dist(lambda x: x[:, 0], lambda x: 0 * x[:, 0], x).values, [0, 1, 4, 9])

    def test_shapes_must_agree(self):
        with pytest.raises(ShapeError, match=r"f2 gives shape \(4,\); expected \(4, 1\)"):
            s_dist(lambda x: x, lambda x: x[:, 0], np.ones((4, 1)))
