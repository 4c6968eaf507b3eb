"""What a report says, as data: a page of claims, sections with figures, settings and citations. No layout here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equitangents.report.verdict import Origin, Verdict


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
