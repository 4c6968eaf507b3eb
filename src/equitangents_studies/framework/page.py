"""Imports for the page of a study: figures and their axes, records and tables."""

from __future__ import annotations

from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Records, in_words, table
from equitangents_studies.framework.study import RunFolder, Shown

__all__ = ["Records", "RunFolder", "Shown", "drawing", "in_words", "table"]
