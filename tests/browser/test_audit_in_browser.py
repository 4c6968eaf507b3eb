"""The audit's page in a real browser: no errors, no requests, sliders that move what they should."""

import itertools

import pytest

from audit.example_report import example_report
from equitangents.audit.report.page import html


@pytest.fixture(scope="module")
def audited():
    return html(example_report())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1100])
def test_loads_without_errors_or_requests(visit, audited, scheme, width):
    found = visit(audited, scheme, width)
    assert found.errors == []
    assert found.requests == []
    overflow = found.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 21, 27)")


def test_the_element_slider_moves_the_mark_and_says_what_it_shows(visit, audited):
    page = visit(audited).page
    slider, said, mark = page.locator("#element"), page.locator("#element-said"), page.locator(".polar .here")
    assert said.inner_text().startswith("turn by 22.5°")
    before = mark.get_attribute("cy")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("turn by 90°")
    assert slider.get_attribute("aria-valuetext") == said.inner_text()
    assert float(mark.get_attribute("cy")) < float(before)  # straight up
    assert abs(float(mark.get_attribute("cx")) - 210) < 0.1
    assert page.locator(".orbit li.chosen .name").all_inner_texts() == ["turn by 90°"] * 2
    page.keyboard.press("End")  # the last element is a reflection: no place on the circle, a column instead
    assert said.inner_text().startswith("reflection 0")
    assert not mark.is_visible()
    assert page.locator(".column.chosen").get_attribute("data-label") == "reflection 0"


def test_light_and_dark_can_be_switched(visit, audited):
    page = visit(audited).page
    page.click("#mode")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)"


def test_everything_has_a_name_for_screen_readers(visit, audited):
    page = visit(audited).page
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("img, input, button, svg[role=img]")]
            .filter(n => !(n.alt || n.ariaLabel || n.getAttribute("aria-label") || n.labels?.length))
            .map(n => n.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    levels = page.evaluate("() => [...document.querySelectorAll('h1, h2, h3')].map(n => +n.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_printed_pages_hide_the_controls(visit, audited):
    page = visit(audited).page
    page.emulate_media(media="print")
    assert not page.locator("#element").is_visible()
    assert page.locator(".polar svg").is_visible()
