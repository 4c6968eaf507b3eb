"""Shorter plans: fewer positions for fields that are constant on some.

Total windows: after a window that holds every position alike, a fibre's field is the same everywhere, and one position
stands for all. Later windows of a group then change nothing, and nonlinearities act once a fibre in place of once a
position. Source: full windows make group convolutions depend on the relative element alone (arXiv 2406.06504, Thm 5.2).

Cosets: a window S moved by g and by g' is the same set where g⁻¹g' S = S. Along every fibre the field after it is then
the same at g and g', and lives on cosets. Windows that follow read cosets, some of them several times, as weights say:
of C4, windows of 2 × 2 make fields on the grid, with windows of 3 × 3 and weights 1 2 1 by 1 2 1, in place of 16
elements.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equitangents.kernels.operation import FrozenArray, Pointwise
from equitangents.kernels.operations import Table
from equitangents.kernels.plans.levels import Level, Levels, TableLevel, still
from equitangents.kernels.program import Op

_AT_ONCE = 1 << 22  # entries of a table that are looked at together
_ROUNDING = 1e-14  # of weights that sum to 1


def collapse_total_windows(field: tuple[Op, ...], levels: Levels) -> tuple[tuple[Op, ...], Levels] | None:
    """(operations, levels) with one position after the first total window of a lifted field; None if it has none."""
    at = next((i for i, op in enumerate(field) if op.is_total), None)
    last = levels.levels[-1]
    if at is None or last.on_grid or not all(op.keeps_constants for op in field[at + 1 :]):
        return None
    after = _without_windows(field[at + 1 :])
    inner = still(after, last.at_one_position())
    found = Levels((*levels.levels[: at + 1], *inner.levels), (*levels.branches[:at], None, *inner.branches))
    return (*field[:at], field[at].at_one_position(), *after), found


def _without_windows(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    return tuple(op.with_held(_without_windows) for op in ops if not op.is_window)


def merge_cosets(field: tuple[Op, ...], levels: Levels) -> tuple[tuple[Op, ...], Levels, int] | None:
    """(operations, levels, how many elements the last field has for each position), or None if nothing is the same."""
    if not all(isinstance(op, Table | Pointwise) for op in field):
        return None
    number: np.ndarray | None = None  # of the position that each element of the level now belongs to
    ops: list[Op] = []
    found: list[Level] = [levels.levels[0]]
    before = 1
    for op, level in zip(field, levels.levels[1:], strict=True):
        assert not level.on_grid
        if isinstance(op, Table):
            rows = _rows(op, number)
            if rows is None:
                return None
            first, number = _alike(rows[0], level)
            op = replace(op, index=FrozenArray(rows[0][first].astype(np.int32)), weights=FrozenArray(rows[1]))
            partners = level.table.array
            level = TableLevel(FrozenArray(number[partners[:, first]].astype(np.int32)))
            before = len(number) // len(first)
        elif number is not None:
            level = found[-1]
        ops.append(op)
        found.append(level)
    if all(a == b for a, b in zip(ops, field, strict=True)):
        return None
    return tuple(ops), Levels(tuple(found), (None,) * len(ops)), before


def _rows(op: Table, number: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
    """(positions that each window reads, heaviest first, their weights), or None where weights differ by window."""
    index = op.index.array if number is None else number[op.index.array]
    order = np.argsort(index, axis=1, kind="stable")
    index, weights = np.take_along_axis(index, order, axis=1), op.weights.array[order]
    begins = np.ones(index.shape, bool)
    begins[:, 1:] = index[:, 1:] != index[:, :-1]
    count = int(begins[0].sum())
    if (begins.sum(axis=1) != count).any():
        return None
    at = np.arange(len(index))[:, None], np.cumsum(begins, axis=1) - 1
    total = np.zeros((len(index), count))
    np.add.at(total, at, weights)
    index = index[begins].reshape(len(index), count)
    order = np.argsort(-np.round(total / _ROUNDING), axis=1, kind="stable")
    index, total = np.take_along_axis(index, order, axis=1), np.take_along_axis(total, order, axis=1)
    if np.max(np.abs(total - total[0])) > _ROUNDING:
        return None
    return index, total[0]


def _alike(rows: np.ndarray, level: TableLevel) -> tuple[np.ndarray, np.ndarray]:
    """(one element for each position, the position of every element): elements of equal windows share one."""
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    number = number.ravel()
    alone = np.arange(len(rows))
    if len(np.unique(np.bincount(number))) != 1:
        return alone, alone
    partners = level.table.array
    step = max(1, _AT_ONCE // max(1, partners.shape[1]))
    for i in range(0, len(partners), step):  # fibres must join positions, not elements
        some = number[partners[i : i + step]]
        if (some != some[:, first][:, number]).any():
            return alone, alone
    return first, number
