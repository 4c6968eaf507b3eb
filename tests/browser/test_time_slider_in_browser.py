"""The slider through training time in a real browser."""

import numpy as np
import pytest

from equitangents.report import Section, palette, render
from equitangents.report.time_slider import Curves, Map, View, time_slider
from equitangents_studies.framework.report import Page


def _view(title, sign):
    values = sign * np.linspace(-1, 1, 3 * 16).reshape(3, 4, 4)
    curves = [Curves("mean", sign * np.linspace(0, 0.9, 3 * 5).reshape(3, 1, 5), palette.BLUE)]
    return View(title, [Map("mean", values, [f"{title} {t}" for t in range(3)])], curves)


@pytest.fixture(scope="module")
def page_with_slider():
    views = [_view("with", 1), _view("without", -1)]
    slider = time_slider("s", "Caption.", times=["0", "1", "2"], views=views, limit=1.0, period=4)
    return render(Page("Title", "", "", [], [Section("Time", [], [slider])], {}, {}, ""))


def test_time_moves_maps_curves_and_words(visit, page_with_slider):
    found = visit(page_with_slider)
    page = found.page
    note, curve, picture = page.locator(".map p"), page.locator(".curves g path").first, page.locator(".map canvas")
    assert note.inner_text() == "with 0"
    first = curve.get_attribute("d"), picture.evaluate("c => c.toDataURL()")
    page.locator(".controls input").focus()
    page.keyboard.press("ArrowRight")
    assert note.inner_text() == "with 1"
    assert page.locator("output").inner_text() == "1"
    assert curve.get_attribute("d") != first[0]
    assert picture.evaluate("c => c.toDataURL()") != first[1]
    assert found.errors == []
    assert found.requests == []


def test_views_are_chosen_by_keyboard(visit, page_with_slider):
    page = visit(page_with_slider).page
    page.locator(".views input").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".views input").nth(1).is_checked()
    assert page.locator(".map p").inner_text() == "without 0"


def test_playing_stops_at_the_end(visit, page_with_slider):
    page = visit(page_with_slider).page
    page.click(".play")
    page.wait_for_function("document.querySelector('.map p').textContent === 'with 2'", timeout=10_000)
    page.wait_for_function("document.querySelector('.play').textContent === '▶'", timeout=10_000)
