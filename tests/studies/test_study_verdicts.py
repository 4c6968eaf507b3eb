"""What a report says of its outcome follows from its verdicts, and what it prints agrees with them."""

import json
import math
import re

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents.report.verdict import Verdict, format_number, with_interval
from equitangents.statistics import Estimate, exactly
from equitangents_studies.framework.claims import EXACT, IN_ERRORS, SINGLE, claim, lead, meaning
from equitangents_studies.framework.records import Records

MEANS = {"holds": "Take it.", "fails": "Leave it.", "undecided": "Measure more."}


def judged(statement, *estimates, covers="inputs", means=MEANS, **bounds):
    numbers = {f"case {i}": e for i, e in enumerate(estimates)}
    return claim(statement, numbers, measure="m", covers=covers, source="s", **means, **bounds)


class TestLead:
    holds = judged("A", Estimate(0, -1, 1), at_most=2)
    undecided = judged("B", Estimate(0, -1, 1), at_most=0.5)
    fails = judged("C", Estimate(0, -1, 1), at_least=2)

    @pytest.mark.parametrize(
        ("verdicts", "said"),
        [
            ("hhh", "3 of 3 claims hold."),
            ("hu", "1 of 2 claims holds; undecided: “B”."),
            ("uf", "0 of 2 claims hold; undecided: “B”; fails: “C”."),
            ("hffu", "1 of 4 claims holds; undecided: “B”; fails: “C”, “C”."),
        ],
    )
    def test_counts_all_verdicts_and_names_those_that_do_not_hold(self, verdicts, said):
        assert lead([{"h": self.holds, "u": self.undecided, "f": self.fails}[v] for v in verdicts]) == said

    def test_what_it_means_is_the_sentence_of_each_verdict(self):
        assert meaning([self.holds, self.undecided, self.fails]) == ["Take it.", "Measure more.", "Leave it."]

    def test_an_undecided_claim_without_words_of_its_own_says_that_it_is_undecided(self):
        said = judged("B", Estimate(0, -1, 1), at_most=0.5, means={"holds": "Take it.", "fails": "Leave it."}).meaning
        assert "does not decide" in said
        assert "“B”" in said


class TestFamilies:
    def test_one_planted_failure_among_many_that_hold_fails_the_claim(self):
        claimed = judged("A", *[Estimate(0, -1, 1)] * 20, Estimate(5, 4, 6), at_most=2)
        assert claimed.verdict == "fails"
        assert "case 20" in claimed.note

    def test_one_without_an_interval_leaves_it_undecided(self):
        claimed = judged("A", Estimate(0, -1, 1), Estimate(0, math.nan, math.nan), at_most=2)
        assert claimed.verdict == "not decidable at this size"
        assert claimed.uncertainty == "no interval: too few samples, or all of them equal"

    def test_all_numbers_are_written_down(self):
        claimed = judged("A", Estimate(0, -1, 1), Estimate(0.5, 0, 1), at_most=2)
        stored = json.loads(json.dumps(claimed.to_dict()))
        assert stored["numbers"]["case 1"] == {"value": 0.5, "interval": [0, 1]}
        assert stored["meaning"] == "Take it."

    def test_a_claim_says_what_its_interval_covers(self):
        with pytest.raises(InvalidArgumentError, match="covers is empty"):
            judged("A", Estimate(0, -1, 1), covers="")


class TestUncertainty:
    def test_only_what_no_sampling_enters_is_deterministic(self):
        assert judged("A", exactly(1.0), covers=EXACT, at_most=2).uncertainty == "deterministic"
        assert "deterministic" not in judged("A", exactly(1.0), covers="inputs", at_most=2).uncertainty
        assert (
            judged("A", exactly(1.0), covers=IN_ERRORS, at_most=3).uncertainty == "in units of its own standard error"
        )

    def test_a_single_random_measurement_decides_nothing(self):
        claimed = judged("A", exactly(1.0), covers=SINGLE, at_most=2)
        assert claimed.verdict == "not decidable at this size"
        assert claimed.uncertainty == "a single measurement without an interval"

    def test_the_interval_says_what_it_is_over(self):
        assert judged("A", Estimate(0.5, 0.4, 0.6), at_most=2).uncertainty == "95 % interval 0.40 to 0.60 over inputs"


class TestPrintedNumbers:
    def test_at_most_1_with_an_interval_just_above_1_is_printed_above_1(self):
        claimed = judged("A", Estimate(1.055, 1.0003, 1.11), at_most=1)
        assert claimed.verdict == "fails"
        assert claimed.uncertainty == "95 % interval 1.0003 to 1.11 over inputs"

    def test_an_interval_that_begins_at_the_bound_is_undecided(self):
        assert judged("A", Estimate(1.055, 1.0, 1.11), at_most=1).verdict == "not decidable at this size"

    def test_the_printed_interval_meets_the_bound_if_and_only_if_the_claim_does(self):
        rng = np.random.default_rng(0)
        for _ in range(2000):
            bound = float(rng.choice([0, 0.01, 1, 5, 97.5, 1e-8, 2e6]))
            near = bound + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-9, 1)
            low, high = sorted((near, near + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-9, 2)))
            claimed = judged("A", Estimate((low + high) / 2, low, high), at_most=bound)
            printed = re.fullmatch("95 % interval (.*) to (.*) over inputs", claimed.uncertainty).groups()
            least, most = map(number, printed)
            by_print = "holds" if most <= bound else "fails" if least > bound else "not decidable at this size"
            assert claimed.verdict == by_print, (low, high, bound, printed)

    def test_bare_verdicts_print_as_before(self):
        verdict = Verdict("c", "holds", "m", "k", 0.5, (0.4, 0.6), "s")
        assert (verdict.number, verdict.uncertainty) == ("0.50", "95 % interval 0.40 to 0.60")
        assert format_number(3.2e-15) == "3.2·10⁻¹⁵"


def number(text):
    """What a reader takes from a printed number."""
    text = text.replace("−", "-")
    if "10" in text and set(text) & set("⁰¹²³⁴⁵⁶⁷⁸⁹"):
        leading, exponent = re.fullmatch(r"(?:(-?[\d.]+)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text).groups()
        return float(f"{leading or 1}e" + exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    return float(text)


class TestRecords:
    records = Records.over(
        lambda width, name: Estimate(width, width - 1, width + 1),
        lambda width, name: f"width {width} on {name}",
        width=(4, 8),
        name=("a", "b"),
    )

    def test_the_same_record_is_table_points_and_claim(self):
        table = self.records.table("ratio")
        assert table["width"] == [4, 4, 8, 8]
        assert table["ratio"] == [4, 4, 8, 8]
        chosen = self.records.where(name="b")
        assert chosen.column("width").tolist() == [4, 8]
        assert chosen.interval[1].tolist() == [5, 9]
        claimed = claim("A", self.records, measure="m", covers="members", source="s", **MEANS, at_most=8.5)
        assert "width 8 on a" in claimed.note
        assert set(claimed.numbers) == {"width 4 on a", "width 4 on b", "width 8 on a", "width 8 on b"}


def test_numbers_without_an_interval_are_said_so_and_are_valid_json():
    numbers = {"here": Estimate(0.5, math.nan, math.nan), "there": Estimate(math.nan, -math.inf, math.inf)}
    claimed = claim("A", numbers, measure="m", covers="members", source="s", **MEANS, at_most=8.5)
    assert claimed.verdict == "not decidable at this size"
    written = json.loads(json.dumps(claimed.to_dict(), allow_nan=False))
    assert written["numbers"]["here"] == {"value": 0.5, "interval": [None, None]}
    assert written["numbers"]["there"] == {"value": None, "interval": ["-inf", "inf"]}
    assert with_interval(0.5, (math.nan, math.nan)) == "0.500 (no interval)"
