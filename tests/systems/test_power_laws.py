"""Learning curves as joined power laws, and which architecture needs fewer samples."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.statistics import Estimate
from equitangents_studies.systems import (
    architecture,
    compare_architectures,
    fit_power_law,
    learning_curve,
    rotate,
    textures,
)
from equitangents_studies.systems.comparison import ArchitectureComparison, cell, check_architectures, compared, notices
from equitangents_studies.systems.curves import LearningCurve
from equitangents_studies.systems.sample_efficiency import log_factor_at_end
from equitangents_studies.systems.transformations import data_group
from examples import examples

SIZES = np.geomspace(100, 10_000, 12)
CUSP, EXPONENTS = 1000.0, (0.2, 0.5)


def joined(n, exponents=EXPONENTS, cusp=CUSP):
    a, b = exponents
    return np.where(n < cusp, n**-a, cusp ** (b - a) * n**-b)


def holds(law, exponents=EXPONENTS, cusp=CUSP):
    """Whether each exponent, and the cusp, lies in its interval."""
    truth = zip((*law.exponents, *law.cusps), (*exponents, cusp), strict=True)
    return [e.low <= value <= e.high for e, value in truth]


class TestWhatIsRecovered:
    def test_a_cusp_without_noise_is_found_exactly(self):
        law = fit_power_law(SIZES, joined(SIZES))
        assert [e.value for e in law.exponents] == pytest.approx(EXPONENTS, abs=1e-3)
        assert law.cusp.value == pytest.approx(CUSP, rel=1e-2)
        assert law.at(45_000).value == pytest.approx(float(joined(np.array([45_000.0]))[0]), rel=1e-2)

    @given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
    @examples(5, random=30)
    def test_other_units_of_sizes_and_errors_move_cusps_alone(self, size, error):
        noisy = joined(SIZES) * np.exp(0.05 * np.random.default_rng(3).normal(size=12))
        one, other = fit_power_law(SIZES, noisy), fit_power_law(size * SIZES, error * noisy)
        assert other.cusp.value == pytest.approx(size * one.cusp.value, rel=1e-6)
        assert other.cusp.high == pytest.approx(size * one.cusp.high, rel=1e-6)
        for a, b in zip(one.exponents, other.exponents, strict=True):
            assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high), abs=1e-6)


class TestIntervals:
    def test_one_segment_has_the_intervals_of_a_straight_line(self):
        rng = np.random.default_rng(0)
        y = SIZES**-0.3 * np.exp(0.1 * rng.normal(size=12))
        law = fit_power_law(SIZES, y, segments=1)
        line = scipy.stats.linregress(np.log(SIZES), np.log(y))
        t = scipy.stats.t.ppf(1 - 0.05 / 4, 10)  # two numbers together: slope and height
        assert law.exponent.value == pytest.approx(-line.slope)
        assert law.exponent.interval == pytest.approx((-line.slope - t * line.stderr, -line.slope + t * line.stderr))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("count", "noise", "repetitions"), [(12, 0.03, 0), (7, 0.03, 0), (12, 0.03, 4), (20, 0.05, 0)]
    )
    def test_all_hold_together_in_95_percent_of_200_draws(self, count, noise, repetitions):
        rng, n = np.random.default_rng(0), np.geomspace(100, 10_000, count)
        together = 0
        for _ in range(200):
            if repetitions:
                drawn = noise * rng.normal(size=(count, repetitions)) + 0.02 * rng.normal(size=repetitions)
                law = fit_power_law(n, joined(n)[:, None] * np.exp(drawn))
            else:
                law = fit_power_law(n, joined(n) * np.exp(noise * rng.normal(size=count)))
            together += all(holds(law))
        assert together >= 190

    @pytest.mark.slow
    @pytest.mark.parametrize("repetitions", [pytest.param(0, marks=pytest.mark.slow), 5])
    def test_growth_that_is_not_there_is_claimed_in_at_most_5_percent(self, repetitions):
        rng, wrong = np.random.default_rng(1), 0
        for _ in range(200):
            shape = (12, repetitions) if repetitions else (12,)
            y = (SIZES**-0.3).reshape(12, *[1] * (len(shape) - 1)) * np.exp(0.05 * rng.normal(size=shape))
            wrong += fit_power_law(SIZES, y).grows.verdict == "holds"
        assert wrong <= 10

    def test_intervals_shrink_as_the_root_of_the_number_of_repetitions(self):
        errors = SIZES[:, None] ** -0.3 * (1 + 0.1 * np.random.default_rng(0).normal(size=(12, 100)))
        few, many = (fit_power_law(SIZES, errors[:, :count], segments=1).exponent.interval for count in (10, 100))
        assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(10**0.5, rel=0.4)

    def test_what_a_repetition_shares_at_all_sizes_widens_the_height_and_not_the_slopes(self):
        rng = np.random.default_rng(2)
        y = joined(SIZES)[:, None] * np.exp(0.02 * rng.normal(size=(12, 6)))
        shift = np.exp(0.3 * rng.normal(size=6))
        one, other = fit_power_law(SIZES, y), fit_power_law(SIZES, y * (shift / shift.mean()))
        width = lambda e: e.high - e.low
        assert width(other.exponent) < 1.5 * width(one.exponent)
        assert width(other.at(1000)) > 3 * width(one.at(1000))

    def test_scatter_beyond_that_of_repetitions_sets_the_intervals(self):
        rng = np.random.default_rng(0)
        noisy = joined(SIZES) * np.exp(0.1 * rng.normal(size=12))
        known = fit_power_law(SIZES, noisy[:, None] * (1 + 0.001 * rng.normal(size=(12, 4))))
        alone = fit_power_law(SIZES, noisy)
        assert known.exponent.high - known.exponent.low > 0.9 * (alone.exponent.high - alone.exponent.low)


class TestGrowth:
    def test_holds_fails_or_is_not_decided(self):
        rng = np.random.default_rng(0)
        noise = np.exp(0.01 * rng.normal(size=12))
        assert fit_power_law(SIZES, joined(SIZES) * noise).grows.verdict == "holds"
        assert fit_power_law(SIZES, joined(SIZES, (0.5, 0.2)) * noise).grows.verdict == "fails"
        assert fit_power_law(SIZES, SIZES**-0.3 * noise).grows.verdict == "undecided"
        assert fit_power_law(SIZES, SIZES**-0.3 * noise, 1).grows.verdict == "undecided"


@pytest.mark.parametrize(("error", "sizes", "errors", "how", "said"), [
    (InvalidArgumentError, [1, 1, 2], [1, 1, 1], {}, "increasing"),
    (ShapeError, [1, 2, 3], [1, 1], {}, r"expected \(3, \.\.\.\)"),
    (InvalidArgumentError, [1, 2, 3, 4, 5], [1, 1, 1, 0, 1], {}, "positive"),
    (NotFiniteError, [1, 2, 3, 4, 5], [1, 1, 1, np.nan, 1], {}, "errors"),
    (InvalidArgumentError, [1, 2, 3, 4], [4, 3, 2, 1], {}, "expected 5"),
    (InvalidArgumentError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"segments": 3}, "segments"),
    (InvalidTypeError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"segments": "two"}, "segments"),
    (InvalidArgumentError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"confidence": 1.0}, "confidence"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(error, sizes, errors, how, said):
    with pytest.raises(error, match=said):
        fit_power_law(sizes, errors, **how)


def test_it_shows_its_table():
    law = fit_power_law(SIZES, joined(SIZES))
    assert "exponent" in repr(law).splitlines()[0]
    assert len(repr(law).splitlines()) == 2 + len(law.exponents)
    with pytest.raises(InvalidArgumentError, match="cusps are 0"):
        _ = fit_power_law(SIZES, joined(SIZES), 1).cusp


DOUBLING = np.array([10, 20, 40, 80, 160])
NUMBERS = DOUBLING.astype(np.float64)
SMALL = {"architectures": ["FCN", "GAP"], "groups": ["O(3d)"], "depth": 1}


@pytest.fixture(scope="module")
def drawn():
    return textures(60, (4, 4, 2), classes=2, seed=1)


@pytest.fixture(scope="module")
def found(drawn):
    return compare_architectures(drawn.x, drawn.labels, groups=["O(3)xI", "O(3)^d"], depth=1, repetitions=10)


class TestFactorsAtTheEnd:
    @pytest.mark.parametrize("seed", range(5))
    def test_recover_the_factor_between_shifted_power_laws(self, seed):
        rng = np.random.default_rng(seed)
        exponent, factor = rng.uniform(0.2, 1), rng.uniform(1.1, 8)
        worse, better = 3 * NUMBERS**-exponent, 3 * (factor * NUMBERS) ** -exponent
        assert np.exp(log_factor_at_end(NUMBERS, worse, better)) == pytest.approx(factor)
        assert log_factor_at_end(NUMBERS, better, worse) == pytest.approx(-np.log(factor))

    def test_end_with_the_smallest_training_set_and_are_none_of_errors_that_vanish(self):
        assert np.exp(log_factor_at_end(NUMBERS, 1 + 0.01 / NUMBERS, 0.1 / NUMBERS)) == pytest.approx(16)
        assert np.isnan(log_factor_at_end(NUMBERS, 1.0 / NUMBERS, 0.0 * NUMBERS))


def test_all_intervals_of_a_comparison_hold_together(found):
    """Of every factor, its difference and its bound at once."""
    pairs = len(found.factors)
    assert pairs > 1
    expected = 1 - 0.05 / (3 * pairs)
    for factor in found.factors:
        assert factor.estimate.confidence == pytest.approx(expected)
        assert factor.difference.confidence == pytest.approx(expected)


class TestCandidates:
    def test_pool_over_the_first_window_that_fits_more_than_once(self):
        assert check_architectures(None, (4, 4, 3)) == ("FCN", "VEC", "LAP2", "GAP")
        assert check_architectures(None, (32, 32, 3))[2] == "LAP4"
        assert check_architectures(None, (5, 7, 1)) == ("FCN", "VEC", "GAP")

    def test_groups_are_named_for_the_channels_of_the_data_and_the_identity_is_left_out(self):
        x, labels = textures(40, (4, 4, 2), classes=2)
        found = compare_architectures(x, labels, **{**SMALL, "groups": ["I", "O(3)xI", "O(3d)", "O(2d)"]})
        assert found.groups == ("O(2)xI", "O(2d)")

    def test_moved_data_are_measured_where_theorem_4_1_lets_predictions_change(self):
        groups = [data_group(name, (4, 4, 3)) for name in ("O(3)xI", "O(3)^d", "P(3d)", "O(3d)")]
        noticed = {name: [notices(name, g, (4, 4, 3)) for g in groups] for name in ("FCN", "LCN", "VEC", "LAP2", "GAP")}
        assert noticed["FCN"] == [False] * 4
        assert noticed["LCN"] == noticed["VEC"] == [False, False, True, True]
        assert noticed["LAP2"] == noticed["GAP"] == [False, True, True, True]


class TestCurves:
    def test_are_those_of_learning_curve_on_data_moved_by_the_group(self, found, drawn):
        x = ((drawn.x - drawn.x.mean()) / drawn.x.std()).astype(np.float32)
        moved = np.asarray(rotate(x, "O(2)^d", 0), np.float32)
        own = learning_curve(
            architecture("GAP", 1),
            moved,
            drawn.labels,
            sizes=found.curves["GAP", "I"].sizes,
            repetitions=10,
            ridge=1e-4,
            predict=None,
        )
        assert np.array_equal(own.squared, found.curves["GAP", "O(2)^d"].squared)
        assert found.settings["inputs"] == 60

    def test_are_not_made_where_a_group_is_not_noticed_as_the_kernel_shows(self, found, drawn):
        assert set(found.curves) == {
            *((name, "I") for name in ("FCN", "VEC", "LAP2", "GAP")), ("LAP2", "O(2)^d"), ("GAP", "O(2)^d"),
        }  # fmt: skip
        for name, group in (("FCN", "O(2)^d"), ("VEC", "O(2)^d"), ("GAP", "O(2)xI")):
            before, after = (architecture(name, 1).kernel(x).ntk for x in (drawn.x, rotate(drawn.x, group)))
            np.testing.assert_allclose(after, before, rtol=1e-8)

    def test_show_every_factor_and_the_best(self, found):
        text = str(found)
        assert all(f": {cell(f)}: {f.verdict}" in text for f in found.factors)
        assert f"not beaten: {', '.join(found.best)}" in text

    def test_of_numbers_and_of_a_test_set_of_their_own(self, drawn):
        y = drawn.x.sum(axis=(1, 2, 3))
        own = compare_architectures(drawn.x[:40], y[:40], test=(drawn.x[40:], y[40:]), **SMALL)
        assert (own.error, own.settings["test_inputs"], own.curves["FCN", "I"].sizes[-1]) == ("squared", 20, 40)
        assert own.settings["classes"] == 0

    @pytest.mark.parametrize(("changes", "message"), [
        ({"architectures": ["FCN"]}, "two or more"),
        ({"architectures": ["FCN", "LAP3"]}, "'LAP3'; expected a part that divides"),
        ({"architectures": ["FCN", "CNN"]}, "'CNN'"), ({"groups": ["O(5)^d"]}, "expected 2; the number of channels"),
        ({"inputs": 31}, "inputs"), ({"error": "log"}, "expected 'classification' or 'squared'"),
    ])  # fmt: skip
    def test_of_what_cannot_be_compared_are_refused(self, drawn, changes, message):
        with pytest.raises(InvalidArgumentError, match=message):
            compare_architectures(drawn.x, drawn.labels, **{**SMALL, **changes})

    def test_need_a_grid(self, drawn):
        with pytest.raises(ShapeError, match="on a grid"):
            compare_architectures(drawn.x.reshape(60, -1), drawn.labels)


@dataclass
class Made:
    """Comparisons of curves that are made up."""

    noise: float

    def __call__(self, **means: np.ndarray) -> ArchitectureComparison:
        rng = np.random.default_rng(0)
        curves = {}
        for name, mean in means.items():
            errors = np.asarray(mean)[:, None] * np.exp(self.noise * rng.normal(size=(len(DOUBLING), 10)))
            curves[name, "I"] = LearningCurve(name, DOUBLING, None, errors, None)
        names = tuple(means)
        pairs = [((a, "I"), (b, "I")) for i, a in enumerate(names) for b in names[i + 1 :]]
        factors = tuple(compared(a, b, curves, "squared", 0.99) for a, b in pairs)
        return ArchitectureComparison(names, (), curves, factors, "squared", {})


class TestFactors:
    @pytest.mark.parametrize(("noise", "fcn", "gap", "verdict", "best"), [
        (0.01, DOUBLING**-0.5, (4 * DOUBLING) ** -0.5, "fewer", ("GAP",)),
        (0.01, (4 * DOUBLING) ** -0.5, DOUBLING**-0.5, "more", ("FCN",)),
        (0.3, DOUBLING**-0.5, (1.05 * DOUBLING) ** -0.5, "undecided", ("FCN", "GAP")),
    ])  # fmt: skip
    def test_the_interval_of_the_difference_decides_which_needs_fewer(self, noise, fcn, gap, verdict, best):
        found = Made(noise)(FCN=fcn, GAP=gap)
        assert (found.factors[0].verdict, found.best) == (verdict, best)

    def test_curves_without_a_common_error_have_a_bound_that_an_interval_supports(self):
        found = Made(0.01)(FCN=1 + 0.1 / DOUBLING, GAP=0.1 / DOUBLING)
        assert (found.factors[0].bound, found.factors[0].verdict) == (16, "fewer")
        assert cell(found.factors[0]) == "> 16"
        flat = Made(0.3)(FCN=1 + 0 * DOUBLING, GAP=np.array([0.98, 0.9, 0.8, 0.6, 0.1]))
        assert (flat.factors[0].bound, flat.factors[0].verdict) == (None, "fewer")

    def test_say_at_least_where_the_better_curve_begins_below_where_the_worse_one_ends(self):
        falling, flat = np.array([0.75, 0.7, 0.6, 0.4, 0.1]), 1 + 0 * DOUBLING
        for a, b, shown in ((flat, falling, "≥ 16"), (falling, flat, "≤ 0.06")):
            found = Made(0.3)(FCN=a, GAP=b)
            found = replace(found, factors=(replace(found.factors[0], bound=None),))  # as of noisier curves
            assert found.factors[0].cut
            assert cell(found.factors[0]).startswith(shown)
        assert not Made(0.01)(FCN=DOUBLING**-0.5, GAP=(4 * DOUBLING) ** -0.5).factors[0].cut

    def test_of_errors_that_vanish_decide_nothing(self):
        found = Made(0.0)(FCN=DOUBLING**-0.5, GAP=0.0 * DOUBLING)
        assert found.factors[0].verdict != "more"
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["factors"][0]["interval"] == [None, None]


@pytest.mark.slow
def test_textures_are_learnt_with_fewest_samples_by_global_pooling_and_not_once_positions_are_torn_apart():
    drawn = textures(200, (8, 8, 3), classes=4, tint=0.3)
    found = compare_architectures(drawn.x, drawn.labels, depth=2, error="squared")
    assert found.best == ("GAP",)
    for group in ("O(3)^d", "P(3d)", "O(3d)"):
        assert found.factor(("GAP", group), ("GAP", "I")).verdict == "fewer"


def test_a_cell_shows_on_which_side_of_1_an_interval_ends():
    f = SimpleNamespace(bound=None, cut=False, estimate=Estimate(5.0, 0.7, 38.0, 0.95))
    assert cell(f) == "5 (0.7 to 38)"
    f.estimate = Estimate(1.5, 1.04, 30.0, 0.95)
    assert "(1.04 to" in cell(f)
