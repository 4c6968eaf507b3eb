"""Learning curves as joined power laws: exponents, cusps, intervals that hold, and what they say of growth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents_studies.systems import fit_power_law
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

    def test_three_segments(self):
        n = np.geomspace(10, 100_000, 21)
        y = np.where(n < 100, n**-0.1, np.where(n < 10_000, 100**0.4 * n**-0.5, 100**0.4 * 10_000**-0.3 * n**-0.2))
        law = fit_power_law(n, y, segments=3)
        assert [e.value for e in law.exponents] == pytest.approx((0.1, 0.5, 0.2), abs=0.02)
        assert [c.value for c in law.cusps] == pytest.approx((100, 10_000), rel=0.15)

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
        ("count", "noise", "repetitions"),
        [
            (12, 0.03, 0),
            (7, 0.03, 0),
            pytest.param(12, 0.03, 4, marks=pytest.mark.slow),
            pytest.param(20, 0.05, 0, marks=pytest.mark.slow),
        ],
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


class TestAutomaticSegments:
    @pytest.mark.quick(1)
    @pytest.mark.parametrize(("exponents", "expected"), [((0.3, 0.3), 1), ((0.2, 0.5), 2)])
    def test_as_many_as_there_are_in_nine_of_ten_curves(self, exponents, expected):
        rng, right = np.random.default_rng(0), 0
        for _ in range(20):
            y = joined(SIZES, exponents)[:, None] * np.exp(0.05 * rng.normal(size=(12, 5)))
            law = fit_power_law(SIZES, y, "auto")
            assert min(law.criterion, key=law.criterion.__getitem__) == law.segments
            right += law.segments == expected
        assert right >= 18


@pytest.mark.parametrize(
    ("error", "sizes", "errors", "how", "said"),
    [
        (InvalidArgumentError, [1, 1, 2], [1, 1, 1], {}, "increasing"),
        (ShapeError, [1, 2, 3], [1, 1], {}, r"expected \(3, \.\.\.\)"),
        (InvalidArgumentError, [1, 2, 3, 4, 5], [1, 1, 1, 0, 1], {}, "positive"),
        (NotFiniteError, [1, 2, 3, 4, 5], [1, 1, 1, np.nan, 1], {}, "errors"),
        (InvalidArgumentError, [1, 2, 3, 4], [4, 3, 2, 1], {}, "need 5"),
        (InvalidArgumentError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"segments": 5}, "segments"),
        (InvalidTypeError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"segments": "two"}, "segments"),
        (InvalidArgumentError, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], {"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_input_is_refused_by_name(error, sizes, errors, how, said):
    with pytest.raises(error, match=said):
        fit_power_law(sizes, errors, **how)


def test_it_shows_its_table():
    law = fit_power_law(SIZES, joined(SIZES))
    assert "exponent" in repr(law).splitlines()[0]
    assert law.table["exponent"] == [e.value for e in law.exponents]
    with pytest.raises(InvalidArgumentError, match="cusps are 0"):
        _ = fit_power_law(SIZES, joined(SIZES), 1).cusp
