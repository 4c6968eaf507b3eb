"""All that the page of a study is made with: figures and their axes, records, tables and what `present` returns."""

from __future__ import annotations

from equitangents.report import Figure, Section, Table
from equitangents_studies.framework import drawing
from equitangents_studies.framework.folder import Columns, RunFolder
from equitangents_studies.framework.records import Records, columns, in_words, table
from equitangents_studies.framework.study import Presentation

__all__ = ["Columns", "Presentation", "Records", "RunFolder", "columns", "drawing", "in_words", "section", "table"]


def section(title: str, *parts: str | Figure | Table) -> Section:
    """A section of the page: those of `parts` that are text are its paragraphs, above the others, which it shows."""
    text = [part for part in parts if isinstance(part, str)]
    return Section(title, text, [part for part in parts if not isinstance(part, str)])
