"""Figures, verdicts and pages: deterministic, self-contained, escaped."""

import json
import re

import numpy as np
import pytest

from equitangents.report import Figure, Section, Table, figures, format_number, palette, render
from equitangents.report.render import outside_resources
from equitangents_studies.framework.report import Page
from equitangents_studies.verdict import FAILS, HOLDS, UNDECIDED, Verdict


def _verdict(verdict=HOLDS, **changes):
    fields = {
        "claim": "The mean is invariant",
        "verdict": verdict,
        "measure": "Violation.",
        "criterion": "at most 1",
        "value": 0.5,
        "interval": (0.4, 0.6),
        "source": "stated",
    }
    return Verdict(**{**fields, **changes})


def _page(**changes):
    fields = {
        "title": "A study",
        "kicker": "kicker",
        "summary": "A sentence.",
        "verdicts": [_verdict()],
        "sections": [],
        "settings": {"members": "3"},
        "versions": {"equitangents": "0"},
        "rerun": "equitangents reproduce x",
    }
    return Page(**{**fields, **changes})


def _draw(folder, name="curve"):
    with figures.canvas(4, 2) as canvas:
        axes = canvas.subplots()
        axes.plot([1, 10, 100], [0, 1, 0], color=palette.BLUE.light)
        axes.imshow(np.eye(3), extent=(0, 1, 0, 1))
        axes.set_xscale("log")
        figures.plain_log(axes, "x")
        figures.label_line(axes, 100, 0, "mean", palette.BLUE.light)
        return figures.save(canvas, folder, name)


class TestFigures:
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


class TestVerdict:
    def test_numbers(self):
        assert format_number(0.123456, (0.11, 0.13)) == "0.123"
        assert format_number(-0.5, (-0.6, -0.4)) == "−0.50"
        assert format_number(3.2e-15) == "3.2·10⁻¹⁵"
        assert format_number(0.0) == "0"
        assert format_number(-0.01, (-0.8, 0.8)) == "0.0"
        assert format_number(float("nan")) == "not a number"
        assert format_number(4.0, (4.0, 4.0)) == "4.00"

    def test_one_that_is_none_has_no_unit(self):
        nan = float("nan")
        assert _verdict(value=nan, interval=(nan, nan), unit="percentage points").number == "no number"

    def test_json_has_number_and_words(self):
        content = json.loads(json.dumps(_verdict().to_dict()))
        assert content["value"] == 0.5
        assert content["interval"] == [0.4, 0.6]
        assert content["number"] == "0.50"
        assert content["uncertainty"] == "95 % interval 0.40 to 0.60"

    def test_exact_numbers_say_so(self):
        assert _verdict(value=1e-15, interval=(1e-15, 1e-15)).uncertainty == "deterministic"


class TestPage:
    def test_wording_comes_from_the_verdict(self):
        badge = r'class="badge [^>]*><b[^>]*>.</b>([^<]*)<'
        for verdict, word in ((HOLDS, "holds"), (FAILS, "fails"), (UNDECIDED, "undecided")):
            html = render(_page(verdicts=[_verdict(verdict, origin="source")]))
            assert re.findall(badge, html) == [word, word]  # in the table, and in full
            assert re.findall(badge, render(_page(verdicts=[_verdict(verdict)]))) == []  # a question of ours

    def test_the_sources_claims_stand_open_and_all_else_folds(self):
        kinds = [_verdict(origin=origin, claim=f"By {origin}", meaning="So.") for origin in ("check", "ours", "source")]
        opened, *folded = render(_page(verdicts=kinds)).split("<details>")
        assert "By source" in opened
        assert "By ours" not in opened
        assert "By check" not in opened
        besides, checks, full, run = folded[:4]
        assert "By ours" in besides
        assert "So." in besides
        assert "By check" in checks
        assert all(f"By {v.origin}" in full for v in kinds)
        assert "equitangents reproduce x" in run

    def test_without_claims_of_a_source_what_was_found_stands_open(self):
        opened, *_ = render(_page(verdicts=[_verdict(meaning="So.")])).split("<details>")
        assert "So." in opened

    def test_says_what_would_decide_a_claim_and_why_one_fails(self):
        undecided = _verdict(UNDECIDED, origin="source", covers="splits", repeated=5, further=12)
        html = render(_page(verdicts=[undecided, _verdict(FAILS, origin="source", why="So it is.")], seconds=600.0))
        assert html.count("Undecided after 5 (splits): 12 more, at most about 24 min, would decide it") == 2
        assert html.count("So it is.") == 2

    def test_its_first_figure_stands_before_the_claims_and_once(self, tmp_path):
        one, other = (Figure(name, f"Caption of {name}.", "<svg></svg>") for name in ("one", "other"))
        html = render(_page(sections=[Section("Seen", ["Text."], [one, other])]))
        assert [html.count(f"Caption of {name}.") for name in ("one", "other")] == [1, 1]
        places = [html.index(x) for x in ("Caption of one", 'id="claims"', "Text.", "Caption of other")]
        assert places == sorted(places)

    def test_is_complete_in_itself(self, tmp_path):
        figure = Figure("curve", "A caption.", _draw(tmp_path))
        table = Table("Numbers.", ["set", "mean"], [["digits", "3.9"]])
        html = render(_page(sections=[Section("Seen", ["Text."], [figure, table])]))
        assert outside_resources(html) == []
        assert "A caption." in html
        assert "<td>3.9</td>" in html

    def test_text_is_escaped(self):
        html = render(_page(summary="a < b & <script>alert(1)</script>"))
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


class TestLabels:
    def test_labels_at_the_end_of_lines_do_not_overlap(self):
        with figures.canvas(4, 2.5) as canvas:
            axes = canvas.subplots()
            axes.set_ylim(0, 1)
            figures.label_ends(axes, 1, [(0.99, "a", "#000000"), (0.1, "b", "#000000"), (0.98, "c", "#000000")], 100)
            heights = sorted(100 * t.xy[1] + t.xyann[1] for t in axes.texts)
        assert min(np.diff(heights)) > 10.9
        assert heights[0] == pytest.approx(10)
        assert heights[-1] <= 100 + 1e-9
