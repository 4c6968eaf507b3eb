"""After a window that holds every position alike, a fibre's field is the same everywhere: one position stands for all.

Later windows of a group then change nothing, and nonlinearities act once a fibre in place of once a position.
Source: full windows make group convolutions depend on the relative element alone (arXiv 2406.06504, Thm 5.2).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equitangents.kernels.plans.levels import Levels, TableLevel, still
from equitangents.kernels.program import (
    Affine,
    Box,
    Dual,
    FrozenArray,
    Op,
    Table,
    inside,
    with_inside,
)


def collapse_total_windows(field: tuple[Op, ...], levels: Levels) -> tuple[tuple[Op, ...], Levels] | None:
    """(operations, levels) with one position after the first total window of a lifted field; None if it has none."""
    at = next((i for i, op in enumerate(field) if isinstance(op, Table) and is_total(op)), None)
    last = levels.levels[-1]
    if at is None or not isinstance(last, TableLevel) or not all(map(_is_plain, field[at + 1 :])):
        return None
    total = field[at]
    assert isinstance(total, Table)
    rows = len(last.table.array)
    one = TableLevel(FrozenArray(np.zeros((rows, 1), np.int32)))
    first = replace(total, index=FrozenArray(total.index.array[:1]))
    after = _without_windows(field[at + 1 :])
    inner = still(after, one)
    found = Levels((*levels.levels[: at + 1], *inner.levels), (*levels.branches[:at], None, *inner.branches))
    return (*field[:at], first, *after), found


def is_total(op: Table) -> bool:
    """Whether every window holds every position it can read equally often, so that all its means are one."""
    index, weights = np.sort(op.index.array, axis=1), op.weights.array
    return bool((index == index[0]).all() and np.ptp(weights) <= 1e-15 * np.abs(weights).max())


def _is_plain(op: Op) -> bool:
    """Whether the operation leaves a field that is the same everywhere so."""
    if held := inside(op):
        return all(_is_plain(within) for ops in held for within in ops)
    return isinstance(op, Affine | Dual | Table) or (isinstance(op, Box) and op.wrap and set(op.stride) == {1})


def _without_windows(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    kept = tuple(op for op in ops if not isinstance(op, Table | Box))
    return tuple(with_inside(op, _without_windows) for op in kept)
