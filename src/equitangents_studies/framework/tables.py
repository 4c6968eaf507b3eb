"""Tidy tables: one row per measurement, written down as rows and kept as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from equitangents.errors import InvalidArgumentError
from equitangents.report import Table, with_interval
from equitangents.statistics import Estimate
from equitangents_studies.framework.folder import Columns


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Columns:
    """Rows as columns under `names`, where an estimate fills three: its value and the ends of its interval.

    Raises InvalidArgumentError for a row of another length.

    >>> columns(("n", "error", "low", "high"), [(10, Estimate(0.2, 0.1, 0.4))])
    {'n': [10], 'error': [0.2], 'low': [0.1], 'high': [0.4]}
    """
    ends = lambda x: (x.value, x.low, x.high) if isinstance(x, Estimate) else (x,)
    kept = [tuple(cell for x in row for cell in ends(x)) for row in rows]
    for row in kept:
        if len(row) != len(names):
            raise InvalidArgumentError(f"row {row} has {len(row)} entries; the columns are {', '.join(names)}")
    return {name: [row[i] for row in kept] for i, name in enumerate(names)}


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of the page, in whose cells estimates stand with their intervals."""
    cell = lambda x: with_interval(x.value, x.interval) if isinstance(x, Estimate) else str(x)
    return Table(caption, header, [[cell(x) for x in row] for row in rows])
