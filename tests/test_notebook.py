"""What reports show in notebooks: true, complete and safe HTML."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

import equitangents as et
from equitangents import notebook

X = np.random.default_rng(0).normal(size=(6, 4))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_names_cannot_put_markup_into_a_notebook() -> None:
    assert "<script>" not in notebook.table("<script>", [("<script>", "<script>")])


def test_a_report_shows_its_finding_and_every_element() -> None:
    report = et.audit(lambda x: x[:, :1] ** 2, "C4", X[:, :2], off_data=False)
    text = "".join(parsed(report._repr_html_()).itertext())
    assert report.first_line in text
    assert all(e.label in text for e in report.elements)
