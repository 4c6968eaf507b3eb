"""Imports for the page of a study: figures and their axes, records, tables and `Presentation`."""

from __future__ import annotations

from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Records, columns, in_words, table
from equitangents_studies.framework.folder import Columns, RunFolder
from equitangents_studies.framework.study import Presentation, Shown

__all__ = ["Columns", "Presentation", "Records", "RunFolder", "Shown", "columns", "drawing", "in_words", "table"]
