"""All that the page of a study is made with: figures and their axes, records, tables and what `present` returns."""

from __future__ import annotations

from equitangents.studies.framework import drawing
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.panels import panels
from equitangents.studies.framework.records import Records
from equitangents.studies.framework.study import Presentation
from equitangents.studies.framework.tables import columns, table

__all__ = ["Columns", "Presentation", "Records", "RunFolder", "columns", "drawing", "panels", "table"]
