"""Base of operations of programs: properties for planners, costs and engines.

Planners, costs and engines walk over programs by what operations say; only their rules ask which operation it is.

Where a group moves positions before an operation, those after it move, too: m[p] is where position p goes. A field is
moved where K_g(m p, m p') = K(p, p') for all pairs of positions, whatever K is. A window is carried along if an order
of its slots takes the moved window of every position to that of another position. All entries of all tables are
compared, and no values of inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Int

L = TypeVar("L")  # where positions stand
Moves = Int[np.ndarray, " positions"]


class HashedOnce:
    """Frozen dataclasses with a precomputed hash, for use as cache keys.

    They name `__hash__` themselves, since dataclasses make one otherwise. A copy in another process hashes anew.
    """

    def __post_init__(self) -> None:
        try:
            found = hash(self._values())
        except TypeError:  # it holds numbers of a JAX program that is traced, and is no key
            return
        object.__setattr__(self, "_hash", found)

    def __hash__(self) -> int:
        try:
            return self._hash  # type: ignore[attr-defined]
        except AttributeError:
            return hash(self._values())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]


class FrozenArray:
    """A read-only NumPy array that hashes and compares by content, so that programs can be cache keys."""

    def __init__(self, array: Any) -> None:
        self.array = np.ascontiguousarray(array)
        self.array.setflags(write=False)
        digest = hashlib.sha256(self.array.tobytes())
        digest.update(repr((self.array.shape, self.array.dtype.str)).encode())
        self.key = digest.hexdigest()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenArray) and self.key == other.key

    def __repr__(self) -> str:
        return f"FrozenArray(shape={self.array.shape}, dtype={self.array.dtype})"


class DualActivation(Protocol):
    """Activation kernel of φ on a pair of jointly Gaussian fields (u, v); see `equitangents.kernels.duals`."""

    def pair(self, d: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """(E[(φ(u) - φ(v))²], E[φ'(u) φ'(v)]) for d = E[(u - v)²], q1 = E[u²], q2 = E[v²]."""

    def covariance(self, k: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """(E[φ(u) φ(v)], E[φ'(u) φ'(v)]) for k = E[u v]: for variances so different that d does not resolve k."""

    def moments(self, q: Any) -> tuple[Any, Any]:
        """(E[φ(u)²], E[φ(u)]) for q = E[u²]."""


class NoFibresError(Exception):
    """The program mixes fibres and needs all pairs of positions."""


class Operation:
    """An operation of a program, with properties for planners, costs and engines.

    One that says nothing mixes fibres, reads one position at a time, and holds no other operations.
    """

    said: ClassVar[str]  # how messages name it, where that is not its class

    is_positional: ClassVar[bool] = False  # it reads several positions, or tells them apart, without pooling them
    needs_variances: ClassVar[bool] = False  # K alone does not say what it does
    stays: ClassVar[bool] = False  # it moves no position and reads no other, so that K(p, p') stays at p and p'
    is_window: ClassVar[bool] = False  # a mean over windows that slide together: K'(p, p') = mean over u of K(pu, p'u)
    has_rates: ClassVar[bool] = False  # its weights move at rates other than those of the NTK parametrisation
    ends_layer: ClassVar[bool] = False  # a layer before it ends, since the field is kept or added to
    is_pool: ClassVar[bool] = False  # a mean over all pairs of positions of two blocks
    is_diagonal: ClassVar[bool] = False  # of such a pool: a mean over positions with themselves alone
    pools_commute: ClassVar[bool] = False  # pooling may come before it or after it
    keeps_constants: ClassVar[bool] = False  # a field that is the same everywhere stays so
    numbers_pass: ClassVar[bool] = False  # a number that the field before it is multiplied with may stand after it
    is_branching: ClassVar[bool] = False  # it is branches of one field or of several, or what joins these, or both
    is_normalising: ClassVar[bool] = False  # it divides by the deviation over positions
    grows: ClassVar[bool] = False  # what it makes grows faster than its input, by no nonlinearity that it says
    is_structured: ClassVar[bool] = False  # structured programs alone have it
    reads_graphs: ClassVar[bool] = False  # it reads the graph that comes with each input
    draws_noise: ClassVar[bool] = False  # an input with itself is not as with an equal one, as noise is its own
    reads_sizes: ClassVar[bool] = False  # what comes out of a smaller input depends on how large that is

    @property
    def name(self) -> str:
        """Name of the operation in messages."""
        return getattr(self, "said", type(self).__name__)

    @property
    def span(self) -> int:
        """Number of positions that each position reads."""
        return 1

    @property
    def sides(self) -> tuple[int, ...]:
        """The lengths of the sides of a window that is a box on a grid; else ()."""
        return ()

    @property
    def grids(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The grids before and after a window that is a box on one; else None."""
        return None

    @property
    def is_total(self) -> bool:
        """Whether it is a window of which each holds every position equally often, so that all its means are one."""
        return False

    @property
    def nonlinearity(self) -> DualActivation | None:
        """The nonlinearity that it is, if it is one."""
        return None

    @property
    def affine(self) -> Any:
        """The `Affine` that it is, if it is the weights and bias of a linear layer; else None."""
        return None

    @property
    def reads_around(self) -> bool:
        """Whether it is a window that reads on around a torus."""
        return False

    @property
    def residual(self) -> tuple[Any, ...] | None:
        """The operations whose result is added to the field itself; None where that is not all."""
        return None

    @property
    def held(self) -> tuple[tuple[Any, ...], ...]:
        """The lists of operations that it holds, one for each branch."""
        return ()

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the channels of branches that it puts side by side; None where it does not."""
        return None

    def with_held(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Self:
        """The operation with every list that it holds changed."""
        return replace(self, branches=tuple(map(change, self.held))) if self.held else self  # type: ignore[type-var]

    def signals_after(self, before: int) -> int:
        """Number of fields after it."""
        return before

    @property
    def moves_no_weight(self) -> bool:
        """Whether it has its own rates, and weights of variance 0."""
        return False

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The tables of indices that it reads, by key."""
        return {}

    def positions_after(self, positions: int) -> int:
        """Number of positions after the operation."""
        return positions

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """Where positions after it go if those before it move by a permutation, see `moves`; none: it is not known.

        alone: of one input of two, K(m p, p') = K_g(p, p'): what its weights read stays in its order.
        """
        if self.stays:
            yield moves

    def blocks_after(self, labels: np.ndarray) -> np.ndarray:
        """The block of each position, −1 where dropped, after it joins blocks."""
        return labels

    def at_one_position(self) -> Self:
        """It on fields that have one position left, since they are the same everywhere."""
        return self

    def products(self, positions: int) -> int:
        """Multiply-adds of a pair of inputs in its sums over positions, of K and of Θ."""
        return 0

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """(the grid after it, whether that is a torus) along a fibre; raises NoFibresError where it mixes fibres."""
        if not self.stays:
            raise NoFibresError("pooling before a later layer mixes fibres")
        return shape, torus

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """The offset before it that a fibre's partners have whose offset after it is `step`."""
        return step

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """Where a group has moved positions after it: on `level` as before, or on the elements, `lifted`.

        `folded`: these stand on the grid. Raises NoFibresError where it mixes fibres.
        """
        raise NoFibresError("a convolution before the lift, or pooling before a later layer, mixes fibres")


class Pointwise(Operation):
    """An operation that does the same at each position."""

    stays: ClassVar[bool] = True

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """Unchanged, since it acts at each position."""
        return level


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
    if (labels[moves] == np.where(inside, found[labels], OUTSIDE)).all() and (
        np.sort(found) == np.arange(blocks)
    ).all():
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
