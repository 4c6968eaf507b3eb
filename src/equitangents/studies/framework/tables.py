"""Tidy tables: one row per measurement, written down as rows and kept as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from equitangents.errors import InvalidArgumentError
from equitangents.studies.framework.folder import Columns


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Columns:
    """Rows as columns under `names`. Raises InvalidArgumentError for a row of another length."""
    kept = [tuple(row) for row in rows]
    for row in kept:
        if len(row) != len(names):
            raise InvalidArgumentError(f"row {row} has {len(row)} entries; the columns are {', '.join(names)}")
    return {name: [row[i] for row in kept] for i, name in enumerate(names)}
