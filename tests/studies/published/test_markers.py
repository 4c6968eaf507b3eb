"""Numbers between markers of pages are those of published runs."""

from __future__ import annotations

import pytest
from tools.results.markers import filled, finder, plain
from tools.results.record import Record

from equitangents.errors import InvalidArgumentError
from equitangents.statistics import Estimate
from equitangents_studies.claim import Claim

CLAIM = Claim(
    "Means * agree", "source", "arXiv 1", "Figure 2", "The difference.", 0.126, (0.111, 0.139), (0.1, 0.2), "0.1",
    covers="members", numbers={"at first": Estimate(0.126, 0.111, 0.139), "after 2 steps": Estimate(0.15, 0.14, 0.16)},
    shown="at first",
)  # fmt: skip
OURS = Claim("Is it more?", "ours", "us", "here", "A share.", -4.31, (-5.4, -3.2), (0.0, 9.0), unit="points")
TABLE = {
    "header": ["", "OSP", "OSP"],
    "rows": [["one", "3.9 (3.8 to 4.0)", "2"], ["many | mean", "4", "3"]],
    "caption": "",
}
RECORD = Record(
    name="run", study="run", variant="", preset="desk", claims=[CLAIM.to_dict(), OURS.to_dict()], figures=[],
    tables=[TABLE], settings={"steps": "2000"}, versions={}, command="reproduce run", seconds=1.0,
    processor_seconds=None, interruptions=0, date=None, machines=[],
)  # fmt: skip
FIND = {"run": finder(RECORD)}


@pytest.mark.parametrize(("path", "value"), [
    ("claims{0}.number", "0.126"), ("claims{0}.interval", "0.111 to 0.139"), ("claims{0}.value as .1%", "12.6 %"),
    ("claims{1}.number", "−4.3 points"), ("claims{1}.number as number", "−4.3"), ("claims{1}.outcome", "fails"),
    ("claims{1}.low as .2f", "−5.40"), ("claims{0}.numbers{after 2 steps}.number", "0.150"),
    ("claims{0}.numbers{1}.interval", "0.140 to 0.160"), ("tables{0}{one}{OSP}", "3.9 (3.8 to 4.0)"),
    ("tables{0}{one}{OSP} as number", "3.9"), ("tables{0}{1}{2}", "3"), ("settings{steps}", "2000"),
    ("settings{steps} as ,.0f", "2,000"), ("interruptions", "0"),
])  # fmt: skip
def test_a_marker_gets_the_number_of_its_path_and_nothing_else_changes(path, value):
    text = "Of 4 <!-- {} -->{}<!-- -->, <!-- a remark -->."
    assert filled(text.format(path, "old"), FIND, "run") == text.format(path, value)
    assert filled(text.format(f"run: {path}", ""), FIND) == text.format(f"run: {path}", value)


@pytest.mark.parametrize(
    "path",
    ["claims{9}.number", "claims{0}.nothing", "claims{0}.value", "claims{0}.numbers{at last}.value as g", "seconds",
     "tables{0}{none}{OSP}", "other: claims{0}.number", "settings{steps} as .2q"],
)  # fmt: skip
def test_a_marker_that_names_nothing_is_refused(path):
    with pytest.raises(InvalidArgumentError, match="names nothing"):
        filled(f"<!-- {path} -->1<!-- -->", FIND, "run")


def test_tables_stand_between_their_markers():
    kinds = ("source", "ours", "check", "tables{0}")
    text = filled("".join(f"<!-- {kind} -->earlier<!-- -->" for kind in kinds), FIND, "run")
    assert "earlier" not in text
    assert "| Means \\* agree<br><small>Figure 2</small> | holds | 0.126<br><small>at first</small> |" in text
    assert "| Is it more? | fails | −4.3 points | −5.4 to −3.2 | ≥ 0 … ≤ 9 |" in text
    assert "<!-- check --><!-- -->" in text
    assert "| many \\| mean | 4 | 3 |" in text
    assert filled(text, FIND, "run") == text
    assert plain("2 * x < $3") == "2 \\* x &lt; \\$3"
