"""What a report says of its outcome follows from its verdicts, and what it prints agrees with them."""

import dataclasses
import json
import math
import re
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import equitangents_studies as studies_room
from equitangents.errors import InvalidArgumentError
from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate, exactly
from equitangents_studies.framework.claims import (
    EXACT,
    IN_ERRORS,
    SINGLE,
    By,
    agreement,
    claim,
    lead,
    ours,
    standing,
    theirs,
)
from equitangents_studies.framework.records import Records
from equitangents_studies.rotated_images import claims as rotated
from equitangents_studies.verdict import Verdict

MEANS = {"holds": "Take it.", "fails": "Leave it.", "undecided": "Measure more."}


def judged(statement, *estimates, covers="inputs", repeated=None, means=MEANS, **how):
    numbers = {f"case {i}": e for i, e in enumerate(estimates)}
    said = {name: how.pop(name, known) for name, known in (("origin", "source"), ("place", "Table 1"), ("stated", ""))}
    how = {"by": By(source="s", **said), "measure": "m"} | means | how
    return claim(statement, numbers, covers=covers if repeated is None else (covers, repeated), **how)


def compared(value, half, stated=7.72, spread=0.34, repeated=None, **changes):
    said = {"measure": "m", "covers": "repetitions" if repeated is None else ("repetitions", repeated)}
    said |= {"by": theirs("s", "Table 1")}
    said |= {"agrees": "The same.", "differs": "Not the same."}
    numbers = {"stated_value": stated, "stated_spread": spread}
    return agreement("D", Estimate(value, value - half, value + half), **numbers, **said | changes)


class TestLead:
    holds = judged("A", Estimate(0, -1, 1), at_most=2)
    undecided = judged("B", Estimate(0, -1, 1), at_most=0.5)
    fails = judged("C", Estimate(0, -1, 1), at_least=2)

    @pytest.mark.parametrize(
        ("verdicts", "said"),
        [
            ("hhh", "3 of 3 claims of the source hold."),
            ("hu", "1 of 2 claims of the source holds; undecided: “B”."),
            ("uf", "0 of 2 claims of the source hold; undecided: “B”; fails: “C”."),
            ("hffu", "1 of 4 claims of the source holds; undecided: “B”; fails: “C”, “C”."),
        ],
    )
    def test_counts_all_verdicts_and_names_those_that_do_not_hold(self, verdicts, said):
        assert lead([{"h": self.holds, "u": self.undecided, "f": self.fails}[v] for v in verdicts]) == said

    def test_what_it_means_is_the_sentence_of_each_verdict(self):
        assert [v.meaning for v in (self.holds, self.undecided, self.fails)] == [
            "Take it.",
            "Measure more.",
            "Leave it.",
        ]

    def test_an_undecided_claim_without_words_of_its_own_says_that_it_is_undecided(self):
        said = judged("B", Estimate(0, -1, 1), at_most=0.5, means={"holds": "Take it.", "fails": "Leave it."}).meaning
        assert "does not decide" in said
        assert "“B”" in said

    def test_numbers_of_the_source_agree_or_differ_beside_the_claims_that_hold(self):
        said = lead([self.holds, compared(7.7, 0.2), compared(6.98, 0.2)])
        assert said == (
            "1 of 1 claim of the source holds, 1 of 2 numbers of the source agrees; "
            "differs by −0.74 (−1.13 to −0.35): “D”."
        )

    def test_questions_of_ours_and_checks_do_not_count_but_a_broken_check_is_named(self):
        ours, check = (judged("E", Estimate(0, -1, 1), at_least=2, origin=o, place="") for o in ("ours", "check"))
        assert lead([self.holds, ours]) == "1 of 1 claim of the source holds."
        assert lead([self.holds, check]) == "1 of 1 claim of the source holds. A check of the code fails: “E”."
        assert (ours.mark, check.mark, self.holds.mark) == ("", "✗ fails", "✓ holds")

    def test_a_study_without_claims_of_a_source_is_led_by_its_first_answer(self):
        ours = [judged(x, Estimate(0, -1, 1), at_least=2, origin="ours", place="") for x in "AB"]
        assert lead(ours) == "Leave it."
        assert "0 of 0" not in lead([])

    def test_why_a_claim_fails_is_said_of_one_that_does(self):
        why = {"why": "At width 64 it is 3.1."}
        assert judged("C", Estimate(0, -1, 1), at_least=2, **why).why == why["why"]
        assert judged("A", Estimate(0, -1, 1), at_most=2, **why).why == ""

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"place": ""}, "place is empty"),
            ({"origin": "theirs"}, "origin is 'theirs'; it is one of 'source', 'ours', 'check'"),
            ({"repeated": 0}, "repeated is 0"),
        ],
    )
    def test_a_claim_says_whose_it_is_and_where_it_is_made(self, changes, named):
        with pytest.raises(InvalidArgumentError, match=named):
            judged("A", Estimate(0, -1, 1), at_most=2, **changes)


class TestAggregates:
    family = tuple(Estimate(x, x - 0.5, x + 0.5) for x in (1.0, 1.2, -2.0))

    def test_the_verdict_is_on_the_aggregate_and_the_least_favourable_is_named(self):
        claimed = judged("A", *self.family, at_least=0, aggregate=("the mean over sets", Estimate(0.4, 0.1, 0.7)))
        assert (claimed.verdict, claimed.value, claimed.criterion) == ("holds", 0.4, "at least 0")
        assert claimed.note == "Shown: the mean over sets. The least favourable of 3 is case 2: −2.0 (−2.5 to −1.5)."
        assert set(claimed.numbers) == {"case 0", "case 1", "case 2"}
        assert judged("A", *self.family, at_least=0).verdict == "fails"

    @given(st.floats(-3, 3), st.floats(0, 2), st.lists(st.floats(-5, 5), min_size=1, max_size=4))
    def test_no_member_changes_the_verdict_of_its_aggregate(self, value, half, members):
        alone = judged("A", Estimate(value, value - half, value + half), at_least=0)
        numbers = [Estimate(x, x - 0.1, x + 0.1) for x in members]
        among = judged("A", *numbers, at_least=0, aggregate=("mean", Estimate(value, value - half, value + half)))
        assert among.verdict == alone.verdict


class TestAgreement:
    def test_on_a_grid_of_differences_it_is_the_definition(self):
        for d in np.linspace(-2, 2, 41):
            for h in np.linspace(0, 2, 21):
                for s in (0.0, 0.1, 0.34, 1.0):
                    half = math.hypot(h, s)
                    expected = "fails" if abs(d) > half else "holds" if half <= 2 * s else "not decidable at this size"
                    assert compared(d, h, stated=0.0, spread=s).verdict == expected, (d, h, s)

    def test_what_is_not_a_number_never_agrees(self):
        for numbers in ((math.nan, 0.1), (7.7, math.nan), (7.7, math.inf)):
            assert compared(*numbers).verdict == "not decidable at this size"
        for spread in (math.nan, -0.1, math.inf):
            with pytest.raises(InvalidArgumentError, match="spread at least 0"):
                compared(7.7, 0.1, spread=spread)

    def test_a_single_measurement_agrees_with_nothing(self):
        assert compared(7.72, 0.0, covers=SINGLE).verdict == "not decidable at this size"

    def test_it_says_by_how_much_it_differs_and_what_the_source_states(self):
        found = compared(6.98, 0.2, unit="of 8", why="Noise alone has 5.77.")
        assert found.mark == "✗ differs by −0.74 (−1.13 to −0.35) of 8"
        assert (found.stated, found.meaning, found.why) == (
            "7.72 ± 0.34 of 8",
            "Not the same.",
            "Noise alone has 5.77.",
        )
        assert compared(7.7, 0.2).mark == "✓ agrees"


class TestWhatDecides:
    """Of an undecided claim: how many more repetitions decide it if the number stays where it is."""

    @staticmethod
    def at(mean, half, n, k):
        """Student's interval about the same mean and spread with k repetitions more."""
        t = lambda m: scipy.stats.t.ppf(0.975, m - 1) / m**0.5
        half = half * t(n + k) / t(n)
        return Estimate(mean, mean - half, mean + half)

    @given(st.floats(-3, 3), st.floats(0.01, 3), st.integers(2, 40))
    def test_so_many_more_decide_a_claim_and_one_fewer_does_not(self, mean, half, n):
        bounds = {"at_least": -1.0, "at_most": 2.0}
        found = judged("A", self.at(mean, half, n, 0), repeated=n, **bounds)
        if found.further is not None:
            assert found.verdict == judged("A", self.at(mean, half, n, found.further - 1), **bounds).verdict
            assert judged("A", self.at(mean, half, n, found.further), **bounds).verdict != found.verdict
            assert f"{found.further:,} more would decide it" in found.remedy()

    @given(st.floats(-3, 3), st.floats(0.01, 3), st.floats(0.05, 1), st.integers(2, 40))
    def test_and_a_number_of_the_sources(self, mean, half, spread, n):
        def asked(k):
            e = self.at(mean, half, n, k)
            return compared(mean, e.high - mean, stated=0.0, spread=spread, repeated=n)

        found = asked(0)
        if found.further is not None:
            assert found.verdict == asked(found.further - 1).verdict
            assert asked(found.further).verdict != found.verdict

    def test_a_family_waits_for_its_last_member_unless_one_misses(self):
        near, far, missing = (self.at(m, 1.0, 5, 0) for m in (0.2, 0.8, -0.6))
        alone = {name: judged("A", e, at_least=0, repeated=5).further for name, e in (("n", near), ("m", missing))}
        assert judged("A", near, far, at_least=0, repeated=5).further == alone["n"]
        assert judged("A", near, far, missing, at_least=0, repeated=5).further == alone["m"]

    def test_it_takes_its_share_of_the_runs_time(self):
        found = judged("A", self.at(0.8, 1.0, 5, 0), at_least=0, repeated=5, covers="repetitions")
        said = found.remedy(600.0)
        assert said.startswith("Undecided after 5 (repetitions): 2 more, at most about 4 min, would decide it if the ")

    def test_on_the_bound_no_number_of_them_decides(self):
        found = judged("A", self.at(0.0, 1.0, 5, 0), at_least=0, repeated=5)
        assert found.remedy() == "Undecided after 5 (inputs): more of them alone would not decide it."
        assert judged("A", self.at(5.0, 1.0, 5, 0), at_least=0, repeated=5).remedy() == ""


class TestWrittenDown:
    @pytest.mark.parametrize(
        "claimed",
        [
            judged("A", Estimate(0, -1, math.nan), Estimate(math.nan, -math.inf, 1), at_most=0.5, repeated=3),
            judged("A", Estimate(0, -1, 1), at_least=0, aggregate=("mean", Estimate(2, 1, 3)), stated="2"),
            judged("A", Estimate(0, -1, 1), at_least=2, why="So it is."),
            compared(6.98, 0.2, numbers={"noise": Estimate(5.77, 5, 6)}),
        ],
    )
    def test_what_is_read_back_is_what_was_written(self, claimed):
        kept = json.loads(json.dumps(claimed.to_dict(), allow_nan=False))
        assert Verdict.from_dict(kept).to_dict() == kept

    def test_what_lacks_something_is_refused(self):
        kept = judged("A", Estimate(0, -1, 1), at_most=2).to_dict()
        for name in ("confidence", "origin", "numbers", "difference", "further"):
            with pytest.raises(KeyError, match=name):
                Verdict.from_dict({k: v for k, v in kept.items() if k != name})


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
        claimed = claim("A", self.records, measure="m", covers="members", by=ours("s"), **MEANS, at_most=8.5)
        assert "width 8 on a" in claimed.note
        assert set(claimed.numbers) == {"width 4 on a", "width 4 on b", "width 8 on a", "width 8 on b"}


def test_numbers_without_an_interval_are_said_so_and_are_valid_json():
    numbers = {"here": Estimate(0.5, math.nan, math.nan), "there": Estimate(math.nan, -math.inf, math.inf)}
    claimed = claim("A", numbers, measure="m", covers="members", by=ours("s"), **MEANS, at_most=8.5)
    assert claimed.verdict == "not decidable at this size"
    written = json.loads(json.dumps(claimed.to_dict(), allow_nan=False))
    assert written["numbers"]["here"] == {"value": 0.5, "interval": [None, None]}
    assert written["numbers"]["there"] == {"value": None, "interval": ["-inf", "inf"]}
    assert with_interval(0.5, (math.nan, math.nan)) == "0.500 (no interval)"


DECISIONS = st.sampled_from(["holds", "fails", "not decidable at this size"])


@given(st.lists(st.tuples(DECISIONS, st.sampled_from(["source", "ours", "check"])), max_size=5))
def test_what_stands_of_a_source_follows_from_its_claims_alone(drawn):
    made = [dataclasses.replace(TestLead.holds, verdict=v, origin=origin) for v, origin in drawn]
    theirs_alone = [v.verdict for v in made if v.origin == "source"]
    said = standing(made)
    assert said == standing([v for v in made if v.origin == "source"])
    assert (said == "refuted") == ("fails" in theirs_alone)
    assert (said == "confirmed") == (bool(theirs_alone) and set(theirs_alone) == {"holds"})
    assert (said == "not tested") == (not theirs_alone)


@pytest.mark.parametrize(("exact", "said"), [(True, "refuted"), (False, "confirmed")])
def test_rotated_images_is_not_refuted_by_a_question_of_ours(monkeypatch, exact, said):
    failing = dataclasses.replace(TestLead.fails, origin="source" if exact else "ours")
    monkeypatch.setattr(rotated, "ahead", lambda *_: TestLead.holds)
    monkeypatch.setattr(rotated, "invariant", lambda *_: failing)
    assert rotated.central(None, types.SimpleNamespace(infinite={"test": 0})) == said


def test_no_study_says_itself_what_became_of_a_source():
    """Words for that stand in the framework alone, and no study compares verdicts of its claims."""
    room = Path(studies_room.__file__).parent
    own = {"systems", "framework", "commands"}
    law = {"learning_curves/page.py", "imagenet_scale/page.py"}  # of power laws, whose verdicts are their own
    for file in room.rglob("*.py"):
        where, text = file.relative_to(room), file.read_text("utf-8")
        if where.parts[0] in own or where.name == "verdict.py":
            continue
        assert not re.search(r'"(confirmed|refuted|not decided)"', text), where
        if where.as_posix() not in law:
            assert not re.search(r"\.verdict\b", text), where
