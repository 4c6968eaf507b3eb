"""Pages of studies, of results made for the purpose: nothing is computed for them, and no figure is saved."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from equitangents.report import Figure
from studies import made_pages
from studies.made_pages import EXAMPLES, words
from studies.miniatures import FIGURES, TABLES

LEFT_OUT = {  # of parts that these results do without
    "rotated-images": {"closed_form"},
    "continuous": {"image_angles", "image_ensembles", "image_costs", "agreement-over-angles", "agreement-against-cost"},
    "sampling": {"trained", "trained_differences", "systematic-and-random"},
    "learning-curves": {"whole", "tried", "features", "beside_exact", "features-GAP"},
}

RECORDED = json.loads(made_pages.RECORDED.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_shows_what_its_study_has_found(name):
    """Its tables and figures; estimates in their intervals; no number missing; and the numbers that are recorded, each
    to within 1e-4 of itself: where one is meant to change, `python tests/studies/made_pages.py`.
    """
    made = made_pages.made(name)
    assert {*made.page.tables, *made.figures} == (TABLES[name] | FIGURES[name]) - LEFT_OUT.get(name, set())
    inside = [item.name for item in made.page.shown if isinstance(item, Figure)]
    assert sorted(inside) == sorted(made.figures)
    for columns in made.page.tables.values():
        (length,) = {len(values) for values in columns.values()}
        assert length > 0
    assert all(e.low <= e.value <= e.high or not e.has_interval for e in made.estimates)
    assert re.search(r"\bnan\b|\binf\b", words(made.page)) is None
    found, expected = (dict(_leaves(x)) for x in (made_pages.numbers(made), RECORDED[name]))
    assert found.keys() == expected.keys()
    assert {at: (x, expected[at]) for at, x in found.items() if not _equal(x, expected[at])} == {}


def _equal(one, other):
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return one == other or (numbers and bool(np.isclose(one, other, rtol=1e-4, atol=1e-9, equal_nan=True)))


def _leaves(tree, at=""):
    if not isinstance(tree, dict | list):
        yield at, tree
        return
    for key, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _leaves(branch, f"{at}/{key}")
