"""A claim is data: its outcome follows from its numbers and bound, and what is printed agrees with it."""

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError
from equitangents.report import with_interval
from equitangents.statistics import Estimate, exactly, shared_level
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, Claim, decide
from equitangents_studies.framework.claims import EXACT, IN_ERRORS, SINGLE, By, Records, agreement, claim, ours, theirs


def judged(statement, *estimates, covers="inputs", **how):
    numbers = {f"case {i}": e for i, e in enumerate(estimates)}
    said = {name: how.pop(name, known) for name, known in (("kind", "source"), ("place", "Table 1"), ("stated", ""))}
    how = {"by": By(source="s", **said), "measure": "m"} | how
    return claim(statement, numbers, covers=covers, **how)


def compared(value, half, stated=7.72, spread=0.34, **changes):
    said = {"measure": "m", "covers": "repetitions"}
    said |= {"by": theirs("s", "Table 1"), "stated_value": stated, "stated_std": spread}
    return agreement("D", Estimate(value, value - half, value + half), **said | changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"place": ""}, "place is ''"),
        ({"kind": "theirs"}, "kind is 'theirs'; expected 'source', 'ours' or 'check'"),
        ({"covers": ""}, "covers is ''"),
    ],
)
def test_a_claim_says_whose_it_is_where_it_is_made_and_what_it_covers(changes, named):
    with pytest.raises(InvalidArgumentError, match=named):
        judged("A", Estimate(0, -1, 1), at_most=2, **changes)


class TestAggregates:
    family = tuple(Estimate(x, x - 0.5, x + 0.5) for x in (1.0, 1.2, -2.0))

    def test_the_outcome_is_of_the_aggregate_and_the_family_is_kept(self):
        claimed = judged("A", *self.family, at_least=0, aggregate=("the mean over sets", Estimate(0.4, 0.1, 0.7)))
        assert (claimed.outcome, claimed.number, claimed.bound) == ("holds", 0.4, (0, math.inf))
        assert claimed.shown == "the mean over sets"
        assert set(claimed.numbers) == {"case 0", "case 1", "case 2"}
        assert judged("A", *self.family, at_least=0).outcome == "fails"

    @given(st.floats(-3, 3), st.floats(0, 2), st.lists(st.floats(-5, 5), min_size=1, max_size=4))
    def test_no_member_changes_the_outcome_of_its_aggregate(self, value, half, members):
        alone = judged("A", Estimate(value, value - half, value + half), at_least=0)
        numbers = [Estimate(x, x - 0.1, x + 0.1) for x in members]
        among = judged("A", *numbers, at_least=0, aggregate=("mean", Estimate(value, value - half, value + half)))
        assert among.outcome == alone.outcome


class TestAgreement:
    def test_on_a_grid_of_differences_it_is_the_definition(self):
        for d in np.linspace(-2, 2, 41):
            for h in np.linspace(0, 2, 21):
                for s in (0.0, 0.1, 0.34, 1.0):
                    half = math.hypot(h, s)
                    expected = "fails" if abs(d) > half else "holds" if half <= 2 * s else "undecided"
                    assert compared(d, h, stated=0.0, spread=s).outcome == expected, (d, h, s)

    def test_what_is_not_a_number_never_agrees(self):
        for numbers in ((math.nan, 0.1), (7.7, math.nan), (7.7, math.inf)):
            assert compared(*numbers).outcome == "undecided"
        for spread in (math.nan, -0.1, math.inf):
            with pytest.raises(InvalidArgumentError, match="a standard deviation of at least 0"):
                compared(7.7, 0.1, spread=spread)

    def test_it_has_the_difference_and_what_the_source_states(self):
        found = compared(6.98, 0.2, unit="of 8")
        assert found.difference.value == pytest.approx(-0.74)
        assert found.difference.high == pytest.approx(-0.74 + math.hypot(0.2, 0.34))
        assert (found.outcome, found.stated, found.bound_cell) == ("fails", "7.72 ± 0.34 of 8", "7.72 ± 0.34")


class TestWrittenDown:
    @pytest.mark.parametrize(
        "claimed",
        [
            judged("A", Estimate(0, -1, math.nan), Estimate(math.nan, -math.inf, 1), at_most=0.5),
            judged("A", Estimate(0, -1, 1), at_least=0, aggregate=("mean", Estimate(2, 1, 3)), stated="2"),
            compared(6.98, 0.2, numbers={"noise": Estimate(5.77, 5, 6)}),
        ],
    )
    def test_what_is_read_back_is_what_was_written(self, claimed):
        kept = json.loads(json.dumps(claimed.to_dict(), allow_nan=False))
        assert Claim.from_dict(kept).to_dict() == kept

    def test_what_lacks_something_is_refused(self):
        kept = judged("A", Estimate(0, -1, 1), at_most=2).to_dict()
        for name in ("confidence", "kind", "numbers", "reference"):
            with pytest.raises(KeyError, match=name):
                Claim.from_dict({k: v for k, v in kept.items() if k != name})
        with pytest.raises(ValueError, match="kind is 'theirs'"):
            Claim.from_dict({**kept, "kind": "theirs"})


class TestFamilies:
    def test_one_planted_failure_fails_the_claim_and_one_without_an_interval_leaves_it_undecided(self):
        claimed = judged("A", *[Estimate(0, -1, 1)] * 20, Estimate(5, 4, 6), at_most=2)
        assert (claimed.outcome, claimed.shown) == ("fails", "case 20")
        claimed = judged("A", Estimate(0, -1, 1), Estimate(0, math.nan, math.nan), at_most=2)
        assert (claimed.outcome, claimed.interval_cell) == ("undecided", "no interval")


class TestCells:
    @pytest.mark.parametrize("covers", [EXACT, IN_ERRORS, SINGLE])
    def test_a_number_without_an_interval_says_why_and_a_single_measurement_decides_nothing(self, covers):
        found = judged("A", exactly(1.0), covers=covers, at_most=2)
        assert found.interval_cell == covers
        assert covers != SINGLE or found.outcome == "undecided"
        assert compared(7.72, 0.0, covers=SINGLE).outcome == "undecided"

    def test_an_interval_just_above_the_bound_is_printed_above_it_and_one_that_begins_there_is_undecided(self):
        claimed = judged("A", Estimate(1.055, 1.0003, 1.11), at_most=1)
        assert (claimed.outcome, claimed.interval_cell) == ("fails", "1.0003 to 1.11")
        assert judged("A", Estimate(1.055, 1.0, 1.11), at_most=1).outcome == "undecided"

    @pytest.mark.parametrize(
        ("bound", "cell"),
        [({"at_least": 0}, "≥ 0"), ({"at_most": -2.5}, "≤ −2.5"), ({"at_least": 0, "at_most": 1}, "≥ 0 … ≤ 1")],
    )
    def test_a_bound_is_printed_as_it_was_given(self, bound, cell):
        assert judged("A", Estimate(0, -1, 1), **bound).bound_cell == cell

    def test_the_printed_interval_meets_the_bound_if_and_only_if_the_claim_does(self):
        rng = np.random.default_rng(0)
        for _ in range(2000):
            bound = float(rng.choice([0, 0.01, 1, 5, 97.5, 1e-8, 2e6]))
            near = bound + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-9, 1)
            low, high = sorted((near, near + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-9, 2)))
            claimed = judged("A", Estimate((low + high) / 2, low, high), at_most=bound)
            least, most = map(number, claimed.interval_cell.split(" to "))
            by_print = "holds" if most <= bound else "fails" if least > bound else "undecided"
            assert claimed.outcome == by_print, (low, high, bound, claimed.interval_cell)


def number(text):
    """What a reader takes from a printed number."""
    text = text.replace("−", "-")
    if "10" in text and set(text) & set("⁰¹²³⁴⁵⁶⁷⁸⁹"):
        leading, exponent = re.fullmatch(r"(?:(-?[\d.]+)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text).groups()
        return float(f"{leading or 1}e" + exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    return float(text)


def test_the_same_record_is_points_and_claim():
    near = lambda width, name: Estimate(width, width - 1, width + 1)
    records = Records.over(near, lambda width, name: f"width {width} on {name}", width=(4, 8), name=("a", "b"))
    chosen = records.where(name="b")
    assert chosen.column("width").tolist() == [4, 8]
    assert chosen.interval[1].tolist() == [5, 9]
    claimed = claim("A", records, measure="m", covers="members", by=ours("s"), at_most=8.5)
    assert claimed.shown == "width 8 on a"
    assert set(claimed.numbers) == {"width 4 on a", "width 4 on b", "width 8 on a", "width 8 on b"}


def test_numbers_without_an_interval_are_said_so_and_are_valid_json():
    numbers = {"here": Estimate(0.5, math.nan, math.nan), "there": Estimate(math.nan, -math.inf, math.inf)}
    claimed = claim("A", numbers, measure="m", covers="members", by=ours("s"), at_most=8.5)
    written = json.loads(json.dumps(claimed.to_dict(), allow_nan=False))
    assert written["numbers"] == {"here": [0.5, None, None], "there": [None, "-inf", "inf"]}
    assert with_interval(0.5, (math.nan, math.nan)) == "0.500 (no interval)"


def test_records_at_given_coordinates_are_those_at_all_of_them():
    found = Records.over(lambda a, b: Estimate(10 * a + b, np.nan, np.nan), a=(1, 2), b=(3, 4, 5))
    assert found.where(a=2, b=4).values.tolist() == [24]
    assert found.where(b=5, a=1).rows == ((1, 5),)
    assert found.where(a=1).values.tolist() == [13, 14, 15]
    assert found.where().values.tolist() == found.values.tolist()
    assert not found.where(a=3, b=4).rows


def test_shared_level():
    assert shared_level(1) == pytest.approx(0.95)
    assert shared_level(10) == pytest.approx(0.995)


class TestDecide:
    @given(st.floats(-10, 10), st.floats(0, 5), st.floats(0, 5), st.floats(-10, 10), st.floats(0, 10))
    def test_inside_holds_outside_fails_and_both_is_undecided(self, value, down, up, bound, span):
        low, high = value - down, value + up
        inside = [bound <= v <= bound + span for v in (low, high)]
        outside = high < bound or low > bound + span
        expected = HOLDS if all(inside) else FAILS if outside else UNDECIDED
        assert decide(Estimate(value, low, high), (bound, bound + span)) == expected

    def test_what_is_not_a_number_is_not_decided(self):
        assert decide(Estimate(np.nan, np.nan, np.nan), (-np.inf, 1)) == UNDECIDED
        assert decide(Estimate(0.0, -np.inf, 0.5), (-np.inf, 1)) == UNDECIDED


def test_agreements_of_trained_ensembles_lie_between_one_and_the_order():
    from equitangents_studies import sampling as page

    table = 1 + 0.4 * np.random.default_rng(0).random((6, 50))
    estimate = page._osp(SimpleNamespace(order=4, agreement=lambda way, name: table), "all", "test")
    assert estimate.value == pytest.approx(table.mean())
    assert 1 <= estimate.interval[0] <= estimate.value <= estimate.interval[1] <= 4
