"""What an audit writes: JSON, Markdown, a page that shows what the report holds and loads nothing."""

from __future__ import annotations

import html as html_text
import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import equitangents as et
from equitangents.audit.report.forms import markdown_table
from equitangents.audit.report.numbers import MeanEstimate, number
from equitangents.audit.report.sections import DECIDES, REASONS, Headline
from equitangents.errors import InvalidArgumentError
from equitangents.report.render import Table
from pages import outside_resources

VERDICTS = {
    "equivariant": ["at noise floor"],
    "equivariant within tolerance": ["within the tolerance"],
    "equivariant on its data": ["fails off the data"],
    "broken": [
        "above noise floor", "above the tolerance", "some elements", "single input", "not finite",
    ],
    "undecided": [
        "rounding", "interpolation", "spread", "constant", "unmoved inputs", "vanishing", "noise", "interval",
    ],
}  # fmt: skip


def written_reports() -> dict[str, et.audit.AuditReport]:
    """Reports that together have every section."""
    rng = np.random.default_rng(0)
    images, clouds = rng.normal(size=(40, 6, 6, 1)), rng.normal(size=(40, 3))
    labels = rng.integers(0, 3, 40)
    forest = RandomForestClassifier(6, random_state=0).fit(images.reshape(40, -1), labels)
    w = rng.normal(size=(36, 2))
    layers = [np.tanh, lambda x: x.reshape(len(x), -1) @ w]
    settings = {"resamples": 100}
    few = {"elements": 12, **settings}
    return {
        "forest": et.audit(forest, "D4", images, y=labels, train=(images, labels), **settings),
        "turns": et.audit(lambda x: layers[1](np.tanh(x)), "SO2", images, elements=6, layers=layers, **settings),
        "infinite": et.audit(lambda x: np.maximum(x[:, 0] - 0.5, 0), "SO3", clouds, **few),
    }


@pytest.fixture(scope="module")
def reports() -> dict[str, et.audit.AuditReport]:
    return written_reports()


@pytest.fixture(scope="module")
def pages(reports: dict) -> dict[str, str]:
    return {name: report.html() for name, report in reports.items()}


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z-]+)"', page)


def test_json_is_valid_and_holds_every_attribute(reports: dict, tmp_path: Path) -> None:
    for report in reports.values():
        path = report.to_json(tmp_path / "audit.json")
        written = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
        left_out = {"errors", "averaged"}
        assert set(written) == {field.name for field in fields(report)} - left_out
    infinite = reports["infinite"]
    assert math.isinf(infinite.error.worst)
    assert infinite.to_dict()["error"]["worst"] is None, "numbers that are not finite are null"


def test_markdown_is_made_of_tables(reports: dict, tmp_path: Path) -> None:
    text = reports["forest"].to_markdown(tmp_path / "audit.md")
    assert (tmp_path / "audit.md").read_text(encoding="utf-8") == text
    assert text.startswith("## ❌ Equivariance audit")
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("|---"):
            assert lines[i - 1].replace("\\|", "").count("|") == line.count("|")
    assert not re.search(r"<(?!!)", text.replace("&lt;", "")), "no HTML gets through"


def test_the_page_shows_every_section_there_is_and_loads_nothing(reports: dict, pages: dict) -> None:
    first, last = ["findings", "error-by-group-element"], ["what-was-tested", "settings", "cite"]
    orbits = ["the-worst-input"]
    assert sections(pages["forest"]) == [*first, *orbits, "members-and-their-mean", *last]
    assert sections(pages["turns"]) == [*first, *orbits, "layers", *last]
    bare = replace(reports["turns"], layers=None, witness=None, citations=[]).html()
    assert sections(bare) == [*first, *last[:2]]
    for page in pages.values():
        assert outside_resources(page) == []
        assert page.startswith("<!doctype html>")
    guilty = replace(reports["turns"].layers, guilty="the guilty one", reason="layer")
    assert "<p>the guilty one</p>" in replace(reports["turns"], layers=guilty).html()


def test_numbers_of_the_page_are_those_of_the_report(reports: dict, pages: dict) -> None:
    for e in reports["forest"].elements:
        row = re.search(rf'<th scope="row">{re.escape(e.label)}<.*?</tr>', pages["forest"], re.S)
        assert row, e.label
        for value in (e.error.estimate.mean, e.judged.estimate.mean, e.same_prediction):
            assert number(value) in row[0]


def test_every_input_of_an_orbit_is_shown_with_its_answer(reports: dict, pages: dict) -> None:
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', pages["forest"])
    assert len(set(pictures)) == len(pictures) == 8
    assert "data:image/png" not in pages["infinite"], "inputs that are no images have none"
    many = et.audit(lambda x: x.reshape(len(x), -1), "C2", np.arange(64.0).reshape(4, 4, 4, 1), effort="quick")
    worst = et.audit(lambda x: x.reshape(len(x), -1), "C2", np.arange(64.0).reshape(4, 4, 4, 1), resamples=50)
    assert many.witness is None
    assert "largest output: " in worst.html()


def test_places_that_cannot_be_written_are_named(reports: dict) -> None:
    for write in (reports["turns"].to_json, reports["turns"].to_html, reports["turns"].to_markdown):
        with pytest.raises(InvalidArgumentError, match="path is '/dev/null/audit'"):
            write("/dev/null/audit")


def test_what_was_used_is_cited_and_what_was_left_out_is_said(reports: dict) -> None:
    forest, turns = (" ".join(reports[name].citations) for name in ("forest", "turns"))
    assert "Emergent Equivariance" in forest
    assert all(title in turns for title in ("Splines", "Pigeonhole", "Procrustes"))
    assert {m.section for m in reports["forest"].missing} == {"layers"}
    assert {m.section for m in reports["turns"].missing} == {"ensemble", "orbit averaging"}
    assert all(m.reason for report in reports.values() for m in report.missing)


def test_first_lines_have_at_most_120_characters(reports: dict) -> None:
    report = reports["turns"]
    contract = replace(report.contract, group="translations of a torus of 1,024 × 1,024 pixels" * 4)
    means = (0.0, 1.23e-15, 0.123, 12.3, 1.23e5, np.inf, np.nan)
    for verdict, reason, mean in ((v, r, m) for v, rs in VERDICTS.items() for r in rs for m in means):
        headline = Headline("spread", replace(report.error, estimate=MeanEstimate(mean, mean, mean)), 1.23e-16, mean)
        settings = {"verdict": verdict, "reason": reason, "headline": headline}
        line = replace(report, contract=contract, **settings).first_line
        assert len(line) <= 120
        assert "noise floor 1.2·10⁻¹⁶, " in line


def test_every_reason_belongs_to_one_verdict() -> None:
    assert sorted(reason for reasons in VERDICTS.values() for reason in reasons) == sorted(REASONS)
    assert set(VERDICTS["undecided"]) == set(DECIDES)


def test_elements_that_are_no_rotations_of_the_plane_have_no_angle() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    flips = et.audit.Custom(lambda g, x: -x if g else x, name="sign")
    for group, given in (("C2", {"inputs": flips}), ("SO3", {}), ("octahedral", {})):
        report = et.audit(lambda x: x[:, :1], group, x, effort="quick", **given)
        assert all(e.angle is None for e in report.elements)
    turned = et.audit(lambda x: x[:, :1], "C4", x[:, :2], effort="quick")
    assert [e.angle for e in turned.elements] == [90, 180, 270]
    assert et.audit(lambda x: x[:, :1], "C2", x, inputs=flips, effort="quick").elements[0].label == "element 1"


HOSTILE = (
    "a|b", "*bold*", "_slanted_", "`code`", "[click](https://x.example)", "![seen](https://x.example/a.png)",
    "<script>alert(1)</script>", "</script><b>", "two\nlines", "# heading", "~~gone~~", "$x$", "back\\slash", "a & b",
    "\x00\x1b[31m", "\ud800", "a_b_c",
)  # fmt: skip


def unescaped(text: str) -> str:
    """What Markdown shows of escaped text."""
    return html_text.unescape(re.sub(r"\\([\\`*\[\]|~$_])", r"\1", text))


def test_names_are_shown_as_they_are_in_markdown_and_on_pages(reports: dict) -> None:
    plain = replace(reports["infinite"], witness=None)
    for name in HOSTILE:
        report = replace(plain, model=replace(plain.model, name=name))
        heading = report.to_markdown().splitlines()[0]
        wanted = " ".join(name.splitlines())
        assert unescaped(heading) == f"## {heading.split()[1]} Equivariance audit: {wanted}"
        assert not re.search(r"(?<!\\)[`*\[|~$<>]", heading)
        rows = markdown_table(Table("", ["test"], [[name]])).splitlines()
        assert unescaped(rows[2]) == f"| {wanted} |"
        assert len(re.findall(r"(?<!\\)\|", rows[2])) == 2
    for name in ("<script>alert(1)</script>", "</script><b>"):
        page = replace(plain, model=replace(plain.model, name=name)).html()
        assert name not in page
        assert html_text.escape(name) in page
