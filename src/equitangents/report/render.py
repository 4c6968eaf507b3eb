"""What a report says, as data, and from it one HTML file that needs nothing else.

A page is claims, sections with figures, settings and citations; styles, figures, data and scripts stand inside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from equitangents._version import __version__
from equitangents.files import whole_file
from equitangents.report.palette import COLOURS, SURFACES
from equitangents.report.verdict import FAILS, HOLDS, UNDECIDED, Origin, Verdict, with_interval


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption; `svg` is ready to be put inside a page."""

    name: str
    caption: str
    svg: str
    alt: str = ""
    wide: bool = True


@dataclass(frozen=True)
class Widget:
    """A piece of a page that reacts to its reader; `html` carries its own data and script."""

    name: str
    caption: str
    html: str


@dataclass(frozen=True)
class Table:
    """A small table: its header and rows of text, the first column left-aligned, the others right-aligned."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text, and what is shown under them."""

    title: str
    text: Sequence[str] = ()
    shown: Sequence[Figure | Widget | Table] = ()


@dataclass(frozen=True)
class Page:
    """All that a report shows: title, sections, figures and sources; `seconds` is what the run took."""

    title: str
    kicker: str
    summary: str
    verdicts: Sequence[Verdict]
    sections: Sequence[Section]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    rerun: str
    citations: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    seconds: float = math.nan

    @property
    def figure(self) -> Figure | None:
        """The first of the first section, which stands before all else."""
        shown = self.sections[0].shown if self.sections else ()
        return next((item for item in shown if isinstance(item, Figure)), None)

    def of(self, origin: Origin) -> list[Verdict]:
        """The verdicts on claims of one origin."""
        return [v for v in self.verdicts if v.origin == origin]


@dataclass(frozen=True)
class Document:
    """A report without claims: title, summary, facts and sections."""

    title: str
    kicker: str
    summary: str
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)


_BADGES = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "undecided"}
_RESOURCE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|image|use)\b[^>]*\s(?:src|href|data)\s*=\s*["']?+(?!data:|\#)
        |<link\b(?![^>]*href=["']data:)|@import|url\(\s*["']?+(?!data:|\#)""",
    re.I | re.X,
)


def render(page: Page | Document) -> str:
    """The page as HTML."""
    claims = isinstance(page, Page)
    version = page.versions.get("equitangents", "") if isinstance(page, Page) else __version__
    template = environment().get_template("page.html.jinja" if claims else "document.html.jinja")
    return template.render(page=page, badges=_BADGES, with_interval=with_interval, colours=COLOURS, version=version)


def write(page: Page | Document, path: Path) -> Path:
    """Render `page` to `path`, which appears only when it is complete."""
    with whole_file(path) as partial:
        partial.write_text(render(page), encoding="utf-8")
    return path


def outside_resources(html: str) -> list[str]:
    """Everything in `html` that a browser would fetch from elsewhere; links a reader may follow do not count."""
    return [html[m.start() : m.start() + 120] for m in _RESOURCE.finditer(html)]


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
    jinja.tests["widget"] = lambda item: isinstance(item, Widget)
    jinja.tests["data_table"] = lambda item: isinstance(item, Table)
    jinja.filters["anchor"] = _anchor
    return jinja


def _anchor(section: Section | str) -> str:
    title = section.title if isinstance(section, Section) else section
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
