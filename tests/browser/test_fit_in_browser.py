"""The page of a fitted classifier: nothing goes wrong in it, in the light and in the dark, on a telephone and wide."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents.fit import auto
from equitangents.fit.page import held_out_page


@pytest.fixture(scope="module")
def fitted():
    """Images whose upper or lower half is bright, or neither, with some labels that are wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    x = rng.normal(0, 0.6, (60, 8, 8, 3))
    x[labels == 0, :4] += 1
    x[labels == 1, 4:] += 1
    y = np.array(["upper", "lower", "none"])[labels]
    y[:3] = "none"
    choice = auto(x, y, minutes=0.2)
    return held_out_page(choice.model, title="Tiles", choice=choice, next_command="equitangents predict").html()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_it_loads_and_fits_its_window(visit, fitted, scheme, width):
    found = visit(fitted, scheme, width)
    assert found.errors == []
    assert found.requests == []
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    assert found.page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    labels = "[...document.querySelectorAll('.drawing text')].map(t => t.getBoundingClientRect().height)"
    assert min(found.page.evaluate(labels)) >= 7
