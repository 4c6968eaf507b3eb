"""Tidy tables: one row per measurement, written down as rows and kept as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from equitangents.errors import InvalidArgumentError
from equitangents.report import Table, with_interval
from equitangents.statistics import Estimate
from equitangents_studies.framework.folder import Columns


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Columns:
    """Rows as columns under `names`. Raises InvalidArgumentError for a row of another length."""
    kept = [tuple(row) for row in rows]
    for row in kept:
        if len(row) != len(names):
            raise InvalidArgumentError(f"row {row} has {len(row)} entries; the columns are {', '.join(names)}")
    return {name: [row[i] for row in kept] for i, name in enumerate(names)}


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of the page, in whose cells estimates stand with their intervals."""
    cell = lambda x: with_interval(x.value, x.interval) if isinstance(x, Estimate) else str(x)
    return Table(caption, header, [[cell(x) for x in row] for row in rows])
