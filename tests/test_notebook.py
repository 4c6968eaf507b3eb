"""What kernels, reports and fitted ensembles show in notebooks: true, complete and safe HTML."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

import equitangents as et
from equitangents import notebook

NET = et.nn.Sequential(et.nn.Dense(8, W_std=1.4), et.nn.Relu(), et.nn.Dense(1))
X = np.random.default_rng(0).normal(size=(6, 4))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_kernels_show_their_engine_and_both_matrices() -> None:
    k = NET.kernel(X)
    root = parsed(k._repr_html_())
    text = "".join(root.itertext())
    assert k.engine in text
    assert "(6, 6)" in text
    assert len(root.findall(".//svg")) == 2
    assert len(root.findall(".//rect")) == 2 * 36
    assert f"{k.ntk.max():.3g} (black)" in text


def test_a_picture_is_a_mean_over_blocks_and_none_of_what_is_not_finite() -> None:
    matrix = np.arange(64.0 * 48).reshape(64, 48)
    assert len(parsed(notebook.picture("K", matrix)).findall(".//rect")) == 32 * 32
    matrix[0, 0] = np.nan
    assert notebook.picture("K", matrix) == ""


def test_names_cannot_put_markup_into_a_notebook() -> None:
    assert "<script>" not in notebook.table("<script>", [("<script>", "<script>")])


def test_a_report_shows_its_finding_and_every_element() -> None:
    report = et.audit(lambda x: x[:, :1] ** 2, "C4", X[:, :2], off_data=False)
    text = "".join(parsed(report._repr_html_()).itertext())
    assert report.first_line in text
    assert all(e.label in text for e in report.elements)
