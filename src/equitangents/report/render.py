"""What a report says, as data, and from it one HTML file that needs nothing else: styles, figures, data and scripts
stand inside.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from equitangents._version import __version__
from equitangents.files import atomic_file
from equitangents.report.palette import COLOURS, SURFACES

_WIDTH = 80  # of tables as text


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption; `svg` is ready to be put inside a page."""

    name: str
    caption: str
    svg: str
    alt: str = ""
    wide: bool = True


@dataclass(frozen=True)
class Table:
    """A small table: its header and rows of text, the first column left-aligned, the others right-aligned.

    `text`: all columns are left-aligned.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: bool = False


def text_of(*tables: Table) -> str:
    """Tables as text of 80 columns, without colours."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table as Grid

    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, color_system=None, markup=False, emoji=False, highlight=False)
    for each in tables:
        console.print(each.caption)
        grid = Grid(*each.header, box=SIMPLE, pad_edge=False)
        grid.show_header, grid.show_edge, grid.padding = any(each.header), False, (0, 1, 0, 0)
        for column in () if each.text else grid.columns[1:]:
            column.justify = "right"
        for row in each.rows:
            grid.add_row(*row)
        console.print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip()) + "\n"


@dataclass(frozen=True)
class Pictures:
    """Thumbnails: PNG files in base64, each with lines of text under it."""

    pictures: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text, and what is shown under them."""

    title: str
    text: Sequence[str] = ()
    shown: Sequence[Figure | Table | Pictures] = ()


@dataclass(frozen=True)
class Document:
    """A report without claims: title, summary, facts and sections; those in narrow columns if `cards` is true."""

    title: str
    kicker: str
    summary: str
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)
    badge: tuple[str, str] | None = None
    """The state ("holds", "fails", "undecided") that colours it, and its text."""
    cards: bool = True

    def html(self) -> str:
        """The page, complete in itself."""
        return environment().get_template("document.html.jinja").render(page=self, colours=COLOURS, version=__version__)


def write(page: str, path: Path) -> Path:
    """Write a page to `path`, which appears only when it is complete."""
    with atomic_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def environment(*packages: str) -> Environment:
    """Jinja's, for the templates here and those of `packages`: text is escaped, a missing name is an error."""
    loader = ChoiceLoader([PackageLoader(package, "templates") for package in ("equitangents.report", *packages)])
    jinja = Environment(
        loader=loader,
        autoescape=select_autoescape(("html", "html.jinja"), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.globals["surfaces"] = SURFACES
    jinja.tests["figure"] = lambda item: isinstance(item, Figure)
    jinja.tests["thumbnails"] = lambda item: isinstance(item, Pictures)
    jinja.tests["data_table"] = lambda item: isinstance(item, Table)
    jinja.filters["anchor"] = _anchor
    return jinja


def _anchor(section: Section | str) -> str:
    title = section.title if isinstance(section, Section) else section
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
