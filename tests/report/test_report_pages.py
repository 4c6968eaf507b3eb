"""Figures, verdicts and pages: deterministic, self-contained, escaped."""

import math
import re

import numpy as np
import pytest

from equitangents.report import Figure, Table, figures, format_number, palette
from equitangents_studies.claim import Claim
from equitangents_studies.framework.catalogue import StudyInfo
from equitangents_studies.framework.report import Page
from pages import outside_resources


def _claim(**changes):
    fields = {
        "statement": "The mean is invariant",
        "kind": "ours",
        "source": "stated",
        "place": "",
        "measure": "Violation.",
        "number": 0.5,
        "interval": (0.4, 0.6),
        "bound": (-math.inf, 1.0),
    }
    return Claim(**{**fields, **changes})


def _page(summary="A sentence.", **changes):
    fields = {
        "info": StudyInfo("x", "A study", "nobody", ("quick",), summary, "none"),
        "preset": "quick",
        "claims": [_claim()],
        "shown": [],
        "settings": {"members": "3"},
        "versions": {"equitangents": "0"},
        "rerun": "equitangents reproduce x",
        "citations": (),
        "seconds": 1.0,
    }
    return Page(**{**fields, **changes})


def _draw(folder, name="curve"):
    with figures.canvas(4, 2) as canvas:
        axes = canvas.subplots()
        axes.plot([1, 10, 100], [0, 1, 0], color=palette.BLUE.light)
        axes.imshow(np.eye(3), extent=(0, 1, 0, 1))
        axes.set_xscale("log")
        figures.plain_log(axes, "x")
        return figures.save(canvas, folder, name)


class TestFigures:
    @pytest.mark.slow
    def test_same_numbers_same_bytes(self, tmp_path):
        _draw(tmp_path / "a")
        _draw(tmp_path / "b")
        for name in ("curve.svg", "curve.png"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_inline_svg_follows_the_page(self, tmp_path):
        svg = _draw(tmp_path)
        assert svg.startswith("<svg")
        assert "var(--blue)" in svg
        assert palette.BLUE.light not in svg.lower()
        assert "xmlns" not in svg
        assert outside_resources(svg) == []
        assert palette.BLUE.light in (tmp_path / "curve.svg").read_text().lower()

    @pytest.mark.slow
    def test_ids_of_two_figures_do_not_meet(self, tmp_path):
        ids = [set(re.findall(r'\bid="([^"]+)"', _draw(tmp_path, name))) for name in ("one", "two")]
        assert ids[0]
        assert not ids[0] & ids[1]
        svg = _draw(tmp_path, "one")
        references = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))
        assert references <= ids[0]

    def test_style_does_not_leak(self, tmp_path):
        import matplotlib as mpl

        before = dict(mpl.rcParams)
        _draw(tmp_path)
        assert dict(mpl.rcParams) == before

    @pytest.mark.parametrize(
        ("value", "label"), [(1.0, "1"), (0.01, "0.01"), (2048.0, "2,048"), (1e-6, "10⁻⁶"), (2e6, "2·10⁶"), (0, "")]
    )
    def test_log_labels(self, value, label):
        assert figures.log_label(value) == label


class TestPalette:
    def test_light_colours_are_distinct_since_they_are_replaced_by_name(self):
        lights = [c.light for c in palette.COLOURS]
        assert len(set(lights)) == len(lights)

    def test_steps_go_from_faint_to_strong(self):
        luminance = [sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in palette.steps(4)]
        assert luminance == sorted(luminance, reverse=True)


class TestNumbers:
    def test_numbers(self):
        assert format_number(0.123456, (0.11, 0.13)) == "0.123"
        assert format_number(-0.5, (-0.6, -0.4)) == "−0.50"
        assert format_number(3.2e-15) == "3.2·10⁻¹⁵"
        assert format_number(0.0) == "0"
        assert format_number(-0.01, (-0.8, 0.8)) == "0.0"
        assert format_number(float("nan")) == "not a number"
        assert format_number(4.0, (4.0, 4.0)) == "4.00"


class TestPage:
    @pytest.mark.parametrize(("bound", "outcome"), [(1.0, "holds"), (0.3, "fails"), (0.5, "undecided")])
    def test_the_outcome_is_that_of_the_claim(self, bound, outcome):
        html = _page(claims=[_claim(bound=(-math.inf, bound))]).html()
        assert re.findall(r'class="badge (\w+)">(\w+)<', html) == [(outcome, outcome)]

    def test_claims_stand_in_tables_by_kind_the_sources_first(self):
        kinds = [_claim(kind=kind, statement=f"By {kind}") for kind in ("check", "ours", "source")]
        html = _page(claims=kinds).html()
        places = [html.index(x) for x in ("Claims of the source", "By source", "By ours", "By check")]
        assert places == sorted(places)
        assert "equitangents reproduce x" in html

    def test_its_first_figure_stands_before_the_claims_and_once(self, tmp_path):
        one, other = (Figure(name, f"Caption of {name}.", "<svg></svg>") for name in ("one", "other"))
        html = _page(shown=[one, other]).html()
        assert [html.count(f"Caption of {name}.") for name in ("one", "other")] == [1, 1]
        places = [html.index(x) for x in ("Caption of one", 'id="claims"', "Caption of other")]
        assert places == sorted(places)

    def test_is_complete_in_itself(self, tmp_path):
        figure = Figure("curve", "A caption.", _draw(tmp_path))
        table = Table("Numbers.", ["set", "mean"], [["digits", "3.9"]])
        html = _page(shown=[figure, table]).html()
        assert outside_resources(html) == []
        assert "A caption." in html
        assert "<td>3.9</td>" in html

    def test_text_is_escaped(self):
        html = _page(summary="a < b & <script>alert(1)</script>").html()
        assert "<script>alert" not in html
        assert "a &lt; b" in html

    @pytest.mark.parametrize(
        "bad",
        [
            '<script src="https://x.org/a.js"></script>',
            "<img alt='' src='a.png'>",
            '<link rel="stylesheet" href="a.css">',
            "<style>@import 'a.css'</style>",
            "<style>a { background: url(http://x.org/a.png) }</style>",
            '<style>@font-face { src: url("a.woff") }</style>',
        ],
    )
    def test_outside_resources_are_found(self, bad):
        assert len(outside_resources(bad)) == 1

    @pytest.mark.parametrize(
        "good", ['<a href="https://x.org">x</a>', '<img src="data:image/png;base64,AA">', "url(#a)"]
    )
    def test_links_and_data_are_not_resources(self, good):
        assert outside_resources(good) == []
