"""The audit's page in a real browser: no errors, no requests, names for screen readers."""

import itertools

import pytest

from audit.test_audit_report import written_reports


@pytest.fixture(scope="module")
def audited():
    return written_reports()["forest"].html()


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
