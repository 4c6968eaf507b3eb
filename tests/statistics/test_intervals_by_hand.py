"""Intervals against their formulas: where one end is Student's alone, leaving out written out, Fieller's equation."""

import importlib

import numpy as np
import pytest
import scipy.stats

from equitangents.errors import EquitangentsError, InvalidTypeError, ShapeError
from equitangents.metrics import measure
from equitangents.statistics import (
    Estimate,
    bias_fraction,
    bootstrap,
    bootstrap_intervals,
    excess_exponent,
    log_ratio,
    power_law,
    quotient_of_squared_means,
    second_moment_share,
    shared_level,
    squared_mean,
    t_interval,
)
from equitangents.statistics.bootstrap import mean_interval, resample, table_interval
from equitangents.statistics.student import binomial_ends

JACKKNIFE = importlib.import_module("equitangents.statistics.jackknife")  # beside a function of that name
LONG_ABOVE = np.random.default_rng(0).exponential(size=12)  # of 10 and more samples the short side is one formula


def student(x, degrees=None):
    """t s / √n of independent values."""
    return scipy.stats.t.ppf(0.975, degrees or len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_side_of_the_shorter_tail_is_students(sign):
    x = LONG_ABOVE - 1
    short, long = sign * np.array(mean_interval(sign * x))[::sign]
    assert short == pytest.approx(x.mean() - student(x), rel=1e-12)
    assert long > x.mean() + 1.1 * student(x)


def test_of_positive_samples_it_is_that_of_the_logarithm():
    low, _ = mean_interval(LONG_ABOVE)
    assert low == pytest.approx(LONG_ABOVE.mean() * np.exp(-student(LONG_ABOVE) / LONG_ABOVE.mean()), rel=1e-12)


def test_resamples_have_means():
    weights = resample(7, 50, 3)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    assert weights.min() >= 0


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("n", [6, 12])
def test_a_statistic_that_is_the_mean_has_the_interval_of_the_mean(n, shift):
    x = LONG_ABOVE[:n] - shift
    one, other = bootstrap(x), bootstrap(x, lambda means: means)
    np.testing.assert_allclose([other.value, *other.interval], [one.value, *one.interval], rtol=1e-10)


@pytest.mark.parametrize("hits", range(7))
def test_shares_have_the_interval_of_clopper_and_pearson(hits):
    exact = scipy.stats.binomtest(hits, 6).proportion_ci(method="exact")
    np.testing.assert_allclose(binomial_ends(1 + hits / 3, 6, 0.95, (1.0, 3.0)), 1 + 2 * np.array(exact), rtol=1e-10)


def test_equal_values_have_one_where_they_are_known_to_lie_between_bounds():
    exact = scipy.stats.binomtest(6, 6).proportion_ci(method="exact")
    np.testing.assert_allclose(mean_interval(np.ones(6), bounds=(0.0, 1.0)), exact, rtol=1e-10)
    assert np.isnan(mean_interval(np.ones(6))).all()


class TestMembers:
    D = np.random.default_rng(1).normal(0.5, 1, size=(7, 4))
    F = np.random.default_rng(2).normal(2.0, 1, size=(7, 4))

    @staticmethod
    def pairs(d):
        return np.mean([d[i] @ d[j] for i in range(len(d)) for j in range(len(d)) if i != j]) / d.shape[1]

    @pytest.mark.parametrize("name", ["squared_mean", "bias_fraction", "second_moment_share"])
    def test_values_are_means_over_pairs_and_each_is_left_out_in_turn(self, name, monkeypatch):
        literal, arguments = {
            "squared_mean": (self.pairs, [self.D]),
            "bias_fraction": (lambda d: self.pairs(d) / np.mean(d**2), [self.D]),
            "second_moment_share": (lambda d, f: self.pairs(d) / np.mean(f**2), [self.D, self.F]),
        }[name]
        seen = []
        kept = lambda whole, left_out, level: (seen.append((whole, left_out)), Estimate(whole, np.nan, np.nan))[1]
        monkeypatch.setattr(JACKKNIFE, "jackknife", kept)
        getattr(JACKKNIFE, name)(*arguments)
        ((whole, left_out),) = seen
        assert whole == pytest.approx(literal(*arguments), rel=1e-12)
        expected = [literal(*(np.delete(a, i, axis=0) for a in arguments)) for i in range(7)]
        np.testing.assert_allclose(left_out, expected, rtol=1e-11)

    @pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
    def test_do_not_depend_on_the_type_that_holds_them(self, dtype):
        d = (50 * np.random.default_rng(1).normal(size=(8, 3))).astype(dtype)
        for of in (squared_mean, bias_fraction, lambda d: second_moment_share(d, d)):
            assert of(d) == of(d.astype(np.float64))

    def test_what_are_no_members_is_refused(self):
        with pytest.raises(ShapeError, match=r"deviations has shape \(4,\); expected \(members, values\)"):
            squared_mean(self.D[0])
        with pytest.raises(InvalidTypeError, match="deviations has dtype complex128; expected real numbers"):
            bias_fraction(1j * self.D)
        with pytest.raises(InvalidTypeError, match="outputs has dtype complex128"):
            second_moment_share(self.D, 1j * self.F)

    def test_the_jackknife_of_a_mean_is_the_interval_of_the_mean(self):
        x = LONG_ABOVE - 1
        found = JACKKNIFE.jackknife(x.mean(), (x.sum() - x) / 11, 0.95)
        assert found.low == pytest.approx(x.mean() - student(x), rel=1e-10)

    def test_one_value_a_member_has_at_least_the_square_of_students_interval(self):
        x = np.random.default_rng(0).normal(size=12)
        x += x.std(ddof=1) / np.sqrt(12) - x.mean()  # then the squared mean is estimated as 0
        found = squared_mean(x[:, None])
        assert abs(found.value) <= 1e-12
        assert found.high >= (x.mean() + student(x)) ** 2 * (1 - 1e-12)

    def test_the_ends_of_a_quotient_solve_fiellers_equation(self):
        rng = np.random.default_rng(0)
        above, below = rng.normal(1.0, 0.3, (20, 5)), rng.normal(2.0, 0.3, (30, 5))
        found = quotient_of_squared_means(above, below)
        a, b = squared_mean(above), squared_mean(below)
        assert found.value == pytest.approx(a.value / b.value)
        assert found.low < found.value < found.high
        widths = [max(e.high - e.value, e.value - e.low) for e in (a, b)]
        for end in found.interval:
            distance = abs(a.value - end * b.value)
            assert distance == pytest.approx(np.hypot(widths[0], end * widths[1]), rel=1e-9)

    def test_a_quotient_by_what_may_be_nothing_is_not_decidable(self):
        below = np.random.default_rng(1).normal(0.4, 1.0, (8, 3))
        b = squared_mean(below)
        assert b.low < 0 < b.value
        found = quotient_of_squared_means(self.D, below)
        assert found.interval == (-np.inf, np.inf)


class TestTables:
    def interval(self, table, bounds=None, level=0.95):
        E, n = table.shape
        return table_interval(table, resample(E, 500, 0), resample(n, 500, 1), level, bounds)

    def test_add_the_squares_of_both_sides_and_count_residuals_once(self):
        rng = np.random.default_rng(3)
        table = rng.exponential(2.0, (12, 1)) + rng.exponential(0.5, (1, 30)) + 0.1 * rng.normal(size=(12, 30)) - 2
        low, high = self.interval(table)
        rows, columns = table.mean(axis=1), table.mean(axis=0)
        residual = sum((table[i, j] - rows[i] - columns[j] + table.mean()) ** 2 for i in range(12) for j in range(30))
        twice = scipy.stats.t.ppf(0.975, 11 * 29) ** 2 * residual / (11 * 29 * 12 * 30)
        both = np.sqrt(student(rows) ** 2 + student(columns) ** 2 - twice)
        assert low == pytest.approx(table.mean() - both, rel=1e-10)
        assert high >= table.mean() + both

    def test_never_reach_less_far_than_one_side_alone(self):
        table = np.random.default_rng(4).normal(size=(10, 40))
        table -= table.mean(axis=1, keepdims=True) * np.linspace(0.9, 1, 10)[:, None]
        low, high = self.interval(table)
        for means in (table.mean(axis=0), table.mean(axis=1)):
            assert low <= table.mean() - student(means) * (1 - 1e-9)
            assert high >= table.mean() + student(means) * (1 - 1e-9)

    @pytest.mark.parametrize("rows", [5, 10])
    def test_nearly_constant_ones_have_intervals_about_as_short_as_constant_ones(self, rows):
        table = np.full((rows, 200), 8.0)
        constant = self.interval(table, (1, 8))
        table[3, 17] = 7
        low, high = self.interval(table, (1, 8))
        assert constant == pytest.approx((1 + 7 * 0.025 ** (1 / 200), 8))
        assert 7.98 <= low < table.mean() < high <= 8

    def test_constant_ones_without_bounds_have_none(self):
        assert np.isnan(self.interval(np.full((6, 9), 0.3))).all()
        assert np.isnan(self.interval(np.full((6, 9), 0.3), (0, np.inf))).all()

    def test_few_rows_or_columns_have_none(self):
        table = np.random.default_rng(5).normal(size=(4, 30))
        assert np.isnan(self.interval(table)).all()
        assert np.isnan(self.interval(table.T)).all()

    def test_lie_between_their_bounds(self):
        table = (np.random.default_rng(6).random((6, 20)) < 0.95).astype(float)
        low, high = self.interval(table, (0, 1), 0.999)
        assert 0 <= low < table.mean() < high == 1


def test_five_positive_samples_do_not_show_that_the_mean_is_positive():
    x = np.array([0.1, 0.2, 0.3, 0.4, 2.0])
    assert mean_interval(x)[0] < 0
    assert mean_interval(x, bounds=(0, np.inf))[0] > 0
    assert mean_interval(np.tile(x, 4))[0] > 0


def test_of_five_samples_no_end_is_further_than_3_5_of_students_steps():
    reached = []
    for x in np.random.default_rng(7).normal(size=(10, 5)):
        low, high = mean_interval(x)
        reached += [(x.mean() - low) / student(x), (high - x.mean()) / student(x)]
    assert np.max(reached) == pytest.approx(3.5, rel=1e-12)


class TestExponents:
    def test_are_half_the_slope_of_logarithms(self):
        x, samples = np.array([1.0, 3.0, 7.0]), LONG_ABOVE.reshape(4, 3)
        slope = np.polyfit(np.log(x), np.log(samples.mean(axis=0)), 1)[0]
        assert power_law(x, samples).value == pytest.approx(slope / 2)

    def test_ratios_are_welchs_on_logarithms(self):
        a, b = LONG_ABOVE, np.random.default_rng(4).exponential(3.0, 7)
        found = log_ratio(a, b)
        welch = scipy.stats.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval()
        expected = [np.exp(np.log(a).mean() - np.log(b).mean()), *np.exp(welch)]
        np.testing.assert_allclose([found.value, *found.interval], expected, rtol=1e-10)

    def test_of_means_weigh_points_by_the_errors_of_their_logarithms(self):
        rng, x = np.random.default_rng(5), np.array([1.0, 4.0, 16.0])
        relative = np.array([0.02, 0.02, 0.5])
        samples = [100 / n * (1 + r * rng.normal(size=300)) for n, r in zip(x, relative, strict=True)]
        means = np.array([s.mean() for s in samples])
        errors = np.array([s.std(ddof=1) / np.sqrt(300) for s in samples]) / means
        (slope, _), covariance = np.polyfit(np.log(x), np.log(means), 1, w=1 / errors, cov="unscaled")
        found, step = excess_exponent(x, samples), 1.97 * np.sqrt(covariance[0, 0])
        assert abs(found.value - slope) <= 0.1 * step
        assert 0.9 * step <= found.high - found.value <= 1.4 * step
        assert 0.9 * step <= found.value - found.low <= 1.4 * step


MEMBERS = LONG_ABOVE.reshape(6, 2)
OF_CONFIDENCE = {
    "bootstrap": lambda **settings: bootstrap(LONG_ABOVE, **settings),
    "bootstrap_intervals": lambda **settings: bootstrap_intervals(MEMBERS, **settings),
    "mean_interval": lambda **settings: mean_interval(LONG_ABOVE, **settings),
    "BootstrapSettings": lambda **settings: measure.BootstrapSettings(**settings),
    "t_interval": lambda **settings: t_interval(LONG_ABOVE, **settings),
    "log_ratio": lambda **settings: log_ratio(LONG_ABOVE, LONG_ABOVE, **settings),
    "power_law": lambda **settings: power_law(np.array([1.0, 2.0]), MEMBERS, **settings),
    "excess_exponent": lambda **settings: excess_exponent(np.array([1.0, 2.0]), list(MEMBERS.T), **settings),
    "squared_mean": lambda **settings: squared_mean(MEMBERS, **settings),
    "bias_fraction": lambda **settings: bias_fraction(MEMBERS, **settings),
    "second_moment_share": lambda **settings: second_moment_share(MEMBERS, MEMBERS, **settings),
    "quotient_of_squared_means": lambda **settings: quotient_of_squared_means(MEMBERS, MEMBERS, **settings),
    "shared_level": lambda **settings: shared_level(3, **settings),
    "binomial_ends": lambda **settings: binomial_ends(0.5, 6, span=(0.0, 1.0), **settings),
}


@pytest.mark.parametrize("name", OF_CONFIDENCE)
@pytest.mark.parametrize("confidence", [95, 0, 1.0, float("nan"), "high"])
def test_a_confidence_is_a_share(name, confidence):
    with pytest.raises(EquitangentsError, match=r"confidence is .*; expected a number between 0 and 1"):
        OF_CONFIDENCE[name](confidence=confidence)


@pytest.mark.parametrize(
    "name", ["bootstrap", "bootstrap_intervals", "mean_interval", "BootstrapSettings", "excess_exponent"]
)
@pytest.mark.parametrize("wrong", [{"resamples": 0}, {"resamples": 2.5}, {"seed": -1}, {"seed": "a"}], ids=str)
def test_resamples_and_seeds_are_whole_numbers(name, wrong):
    with pytest.raises(EquitangentsError, match=f"{next(iter(wrong))} is .*; expected a whole number, at least"):
        OF_CONFIDENCE[name](**wrong)


def test_samples_of_other_shapes_are_named():
    with pytest.raises(ShapeError, match=r"samples has shape \(6, 2\); expected \(n,\), or a statistic"):
        bootstrap(MEMBERS)
    with pytest.raises(ShapeError, match=r"values has shape \(6, 2\); expected \(n,\)"):
        mean_interval(MEMBERS)
    with pytest.raises(ShapeError, match=r"numerator has shape \(0,\)"):
        log_ratio([], LONG_ABOVE)
    with pytest.raises(ShapeError, match=r"denominator has shape \(0,\)"):
        log_ratio(LONG_ABOVE, np.zeros(0))
