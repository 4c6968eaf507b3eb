"""All that the page of a study is made with: figures and their axes, records, tables and what `present` returns."""

from __future__ import annotations

from equitangents_studies.framework import drawing
from equitangents_studies.framework.folder import Columns, RunFolder
from equitangents_studies.framework.panels import panels
from equitangents_studies.framework.records import Records, columns, table
from equitangents_studies.framework.study import Presentation

__all__ = ["Columns", "Presentation", "Records", "RunFolder", "columns", "drawing", "panels", "table"]
