import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from equitangents.errors import NotFiniteError, ShapeError
from equitangents.metrics import bootstrap_interval, s_dist

values = st.lists(st.floats(-100, 100), min_size=1, max_size=20)


class TestBootstrap:
    def test_against_scipy(self):
        sample = np.random.default_rng(1).exponential(size=60)
        ours = bootstrap_interval(sample, resamples=20_000)
        theirs = bootstrap((sample,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
        np.testing.assert_allclose(ours, theirs, atol=0.02)

    def test_it_covers_the_truth_as_often_as_it_says(self):
        rng = np.random.default_rng(0)
        covered = 0
        for _ in range(300):
            low, high = bootstrap_interval(rng.normal(size=50), confidence=0.8, resamples=200)
            covered += low <= 0 <= high
        assert 0.72 < covered / 300 < 0.88

    @given(values, st.floats(0.5, 0.99))
    def test_around_the_mean_and_reproducible(self, sample, confidence):
        low, high = bootstrap_interval(sample, confidence=confidence, resamples=200)
        assert min(sample) - 1e-12 <= low <= high <= max(sample) + 1e-12
        assert (low, high) == bootstrap_interval(sample, confidence=confidence, resamples=200)
        wider = bootstrap_interval(sample, confidence=0.995, resamples=200)
        assert wider[0] <= low <= high <= wider[1]

    def test_the_seed_decides(self):
        sample = np.random.default_rng(1).normal(size=30)
        assert bootstrap_interval(sample, seed=1) != bootstrap_interval(sample, seed=2)

    def test_more_inputs_narrow_it(self):
        sample = np.random.default_rng(1).normal(size=1600)
        width = lambda n: np.diff(bootstrap_interval(sample[:n]))[0]
        assert 3 < width(100) / width(1600) < 5.5

    def test_one_input(self):
        assert bootstrap_interval([3.0]) == (3.0, 3.0)

    def test_bad_values(self):
        with pytest.raises(ShapeError, match="values has shape"):
            bootstrap_interval([])
        with pytest.raises(NotFiniteError):
            bootstrap_interval([np.nan])


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
        np.testing.assert_allclose(s_dist(f2, f1, x).values, expected, rtol=1e-12)
        assert s_dist(f1, f1, x).mean == 0

    def test_quantiles_are_values(self):
        result = s_dist(lambda x: x, lambda x: 0 * x, np.arange(5.0)[:, None])
        np.testing.assert_array_equal(result.quantiles([0.0, 0.5, 1.0]), [0, 4, 16])

    def test_outputs_of_one_axis(self):
        x = np.arange(4.0)[:, None]
        np.testing.assert_array_equal(s_dist(lambda x: x[:, 0], lambda x: 0 * x[:, 0], x).values, [0, 1, 4, 9])

    def test_shapes_must_agree(self):
        with pytest.raises(ShapeError, match=r"f1\(x\) has shape \(4, 1\) and f2\(x\) has shape \(4,\)"):
            s_dist(lambda x: x, lambda x: x[:, 0], np.ones((4, 1)))

    def test_it_prints_what_it_found(self):
        text = repr(s_dist(lambda x: x, lambda x: x + 1, np.zeros((4, 3))))
        assert text == "Measure(S-Dist: mean 3, 95% interval [3, 3], 4 inputs)"
