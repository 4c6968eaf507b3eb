"""What an audit writes: JSON, Markdown, a page that loads nothing, what to cite."""

from __future__ import annotations

import dataclasses
import html as html_text
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import equitangents as et
from audit.example_report import example_report
from equitangents.audit.report.forms import markdown_table
from equitangents.errors import InvalidArgumentError
from equitangents.report.render import Table, outside_resources


@pytest.fixture(scope="module")
def reports() -> dict[str, et.audit.AuditReport]:
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
        "space": et.audit(lambda x: x[:, :2] ** 2, "SO3", clouds, **few),
        "infinite": et.audit(lambda x: np.maximum(x[:, 0] - 0.5, 0), "SO3", clouds, **few),
    }


@pytest.mark.parametrize("name", ["forest", "turns", "space", "infinite"])
def test_json_is_valid_and_holds_every_attribute(reports: dict, name: str, tmp_path: Path) -> None:
    path = reports[name].to_json(tmp_path / "audit.json")
    written = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
    left_out = {"errors", "floors", "parameters", "averaged"}
    assert set(written) == {field.name for field in dataclasses.fields(reports[name])} - left_out


def test_numbers_that_are_not_finite_are_null(reports: dict) -> None:
    report = reports["infinite"]
    assert math.isinf(report.error.worst)
    assert report.to_dict()["error"]["worst"] is None
    assert report.verdict == "broken"


def test_markdown_is_made_of_tables(reports: dict, tmp_path: Path) -> None:
    text = reports["forest"].to_markdown(tmp_path / "audit.md")
    assert (tmp_path / "audit.md").read_text(encoding="utf-8") == text
    assert text.startswith("## ❌ Equivariance audit")
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("|---"):
            assert lines[i - 1].replace("\\|", "").count("|") == line.count("|")
    assert not re.search(r"<(?!!)", text.replace("&lt;", "")), "no HTML gets through"


@pytest.mark.slow
def test_the_page_loads_nothing(reports: dict, tmp_path: Path) -> None:
    for name, report in reports.items():
        html = report.to_html(tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert outside_resources(html) == []
        assert html.startswith("<!doctype html>")
        assert "&lt;" not in report.model.name


def test_places_that_cannot_be_written_are_named(reports: dict) -> None:
    for write in (reports["turns"].to_json, reports["turns"].to_html, reports["turns"].to_markdown):
        with pytest.raises(InvalidArgumentError, match="path is '/dev/null/audit'"):
            write("/dev/null/audit")


def test_what_was_used_is_cited(reports: dict) -> None:
    forest, turns = (" ".join(reports[name].citations) for name in ("forest", "turns"))
    assert "Kernel Two-Sample" in forest
    assert all(title in turns for title in ("Splines", "Pigeonhole", "Procrustes"))


def test_what_was_left_out_is_said(reports: dict) -> None:
    assert {m.section for m in reports["forest"].missing} == {"layers"}
    assert {m.section for m in reports["turns"].missing} == {"ensemble"}
    assert all(m.reason for report in reports.values() for m in report.missing)


HOSTILE = (
    "a|b", "*bold*", "_slanted_", "`code`", "[click](https://x.example)", "![seen](https://x.example/a.png)",
    "<script>alert(1)</script>", "</script><b>", "two\nlines", "# heading", "~~gone~~", "$x$", "back\\slash", "a & b",
    "\x00\x1b[31m", "\ud800", "a_b_c",
)  # fmt: skip


def unescaped(text: str) -> str:
    """What Markdown shows of escaped text."""
    return html_text.unescape(re.sub(r"\\([\\`*\[\]|~$_])", r"\1", text))


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are_in_markdown_and_xml(name: str) -> None:
    report = example_report(order=2, reflections=0, name=name, images=False)
    heading = report.to_markdown().splitlines()[0]
    wanted = " ".join(name.splitlines())
    assert unescaped(heading) == f"## {heading.split()[1]} Equivariance audit: {wanted}"
    assert not re.search(r"(?<!\\)[`*\[|~$<>]", heading)
    rows = markdown_table(Table("", ["test"], [[name]])).splitlines()
    assert unescaped(rows[2]) == f"| {wanted} |"
    assert len(re.findall(r"(?<!\\)\|", rows[2])) == 2
    suite = ElementTree.fromstring(report.junit().encode("utf-8"))
    shown = re.sub("[\x00\x1b\ud800]", "\N{REPLACEMENT CHARACTER}", name)
    assert " ".join(suite.get("name").split()) == " ".join(f"equitangents audit of {shown} under D16".split())
    page = report.html()
    assert "<script>alert" not in page
    assert "</script><b>" not in page
