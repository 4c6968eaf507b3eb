"""Where positions go behind an operation, if a group moves those before it: m[p] is where position p goes.

A field is moved where K_g(m p, m p') = K(p, p') for all pairs of positions, whatever K is. A window is carried along if
one order of its slots takes the moved window of every position to that of another position. All entries of all tables
are compared, and no values of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from jaxtyping import Int

Moves = Int[np.ndarray, " positions"]
OUTSIDE = -1  # the position of a slot that reads zeros
_TRIES = 16  # orders of slots that are tried; a window that needs more is not known to be carried along


def box_table(
    in_shape: tuple[int, ...],
    out_shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    low: tuple[int, ...],
    wrap: bool,
) -> Int[np.ndarray, "out slots"]:
    """The positions that each window of a box reads, OUTSIDE beyond the grid."""
    flat, outside = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool)
    for n, count, width, step, pad in zip(in_shape, out_shape, window, stride, low, strict=True):
        axis = np.arange(count)[:, None] * step - pad + np.arange(width)
        beyond = np.zeros_like(axis, bool) if wrap else (axis < 0) | (axis >= n)
        rows = len(flat) * count
        flat = (flat[:, None, :, None] * n + (axis % n)[None, :, None, :]).reshape(rows, -1)
        outside = (outside[:, None, :, None] | beyond[None, :, None, :]).reshape(rows, -1)
    return np.where(outside, OUTSIDE, flat)


def by_order(table: np.ndarray, moves: Moves) -> Iterator[Moves]:
    """Moves of windows whose slots keep their order."""
    found = _rows(np.where(table < 0, OUTSIDE, moves[table]), table)
    if found is not None:
        yield found


def by_slots(table: np.ndarray, weights: np.ndarray | None, moves: Moves) -> Iterator[Moves]:
    """Moves of windows that are read slot by slot, K'(p, p') = Σ_u w_u K(p_u, p'_u), from likely to unlikely."""
    moved = np.where(table < 0, OUTSIDE, moves[table])
    yield from by_order(table, moves)
    first = int((table >= 0).sum(axis=1).argmax())
    start = np.lexsort((np.zeros(table.shape[1]) if weights is None else weights, moved[first]))
    alike = (np.sort(table, axis=1) == moved[first][start]).all(axis=1)
    for target in islice(np.flatnonzero(alike), _TRIES):
        order = np.lexsort((np.zeros(table.shape[1]) if weights is None else weights, table[target]))
        slots = np.empty(table.shape[1], np.int64)
        slots[order] = start
        if (slots == np.arange(len(slots))).all() or not (weights is None or (weights[slots] == weights).all()):
            continue
        found = _rows(moved[:, slots], table)
        if found is not None:
            yield found


def by_sets(table: np.ndarray, moves: Moves) -> Iterator[Moves]:
    """Moves of windows whose positions are read in all pairs, K'(p, p') = mean over u, u' of K(p_u, p'_u')."""
    found = _rows(np.sort(np.where(table < 0, OUTSIDE, moves[table]), axis=1), np.sort(table, axis=1))
    if found is not None:
        yield found


def by_blocks(labels: np.ndarray, blocks: int, moves: Moves) -> Iterator[Moves]:
    """Moves of blocks, if those of one block go to one block, and those of none to none."""
    found = np.full(blocks, OUTSIDE)
    inside = labels >= 0
    found[labels[inside]] = labels[moves[inside]]
    if (labels[moves] == np.where(inside, found[labels], OUTSIDE)).all() and _is_permutation(found):
        yield found


def of_none(moves: Moves) -> Iterator[Moves]:
    """The moves, if they leave all positions where they are."""
    if np.array_equal(moves, np.arange(len(moves))):
        yield moves


def by_matrix(matrix: np.ndarray, moves: Moves) -> Iterator[Moves]:
    """Moves of the rows of a matrix A, A[m' i, m j] = A[i, j]."""
    moved = np.empty_like(matrix)
    moved[:, moves] = matrix
    found = _rows(moved, matrix)
    if found is not None:
        yield found


def _rows(moved: np.ndarray, table: np.ndarray) -> Moves | None:
    """The permutation m with table[m[i]] = moved[i] for all rows, if there is one; equal rows are as one."""
    mixed = np.random.default_rng(0).standard_normal(table.shape[1])  # finds candidates, which are then compared
    here, there = (np.argsort(rows @ mixed, kind="stable") for rows in (moved, table))
    found = np.empty(len(table), np.int64)
    found[here] = there
    return found if np.array_equal(table[found], moved) else None


def _is_permutation(found: np.ndarray) -> bool:
    return bool((np.sort(found) == np.arange(len(found))).all())
