"""A plan as one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equitangents._version import __version__
from equitangents.files import whole_file
from equitangents.planning.alternatives import Alternative
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment


@dataclass(frozen=True)
class Page:
    """What the page shows: the answer, facts by name, the drawing, and rows of cells under the columns' names."""

    answer: str
    facts: Mapping[str, str]
    measure: str
    over_inputs: str
    lower: str
    upper: str
    drawing: str
    rows: Sequence[tuple[str, ...]]
    alternatives: Sequence[Alternative]
    notes: Sequence[str]


def write(page: Page, path: Path) -> Path:
    """Render to `path`, which appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(render(page), encoding="utf-8")
    return path


def render(page: Page) -> str:
    """The page as HTML."""
    return environment().get_template("plan.html.jinja").render(plan=page, version=__version__, colours=COLOURS)
