"""Operations of programs: windows, linear layers, nonlinearities, pools, and their properties.

Planners, costs and engines use the properties of operations; only engines' rules distinguish their types.

If a group moves positions before an operation, those after it move, too: m[p] is the image of position p. A field is
moved if K_g(m p, m p') = K(p, p') for all pairs of positions, whatever K is. Windows are moved if some order of their
slots maps the moved window of every position to that of another position. All entries of all tables are compared, and
no values of inputs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Int

L = TypeVar("L")  # where positions stand
Moves = Int[np.ndarray, " positions"]


class HashedOnce:
    """Base of frozen dataclasses that cache their hash, for use as cache keys.

    They define `__hash__` explicitly, since dataclasses generate one otherwise. A copy in another process hashes again.
    """

    def __hash__(self) -> int:
        try:
            return self._hash  # type: ignore[attr-defined]
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self._values()))
            return hash(self)

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


class MixedOffsetsError(Exception):
    """The program mixes pair offsets and needs all pairs of positions."""


class Operation:
    """An operation of a program, with properties for planners, costs and engines.

    By default it mixes pair offsets, reads one position at a time, and holds no other operations.
    """

    label: ClassVar[str]  # how messages name it, if it is structured

    is_positional: ClassVar[bool] = False  # it reads several positions, or distinguishes them, without pooling them
    needs_variances: ClassVar[bool] = False  # its result does not depend on K only
    stays: ClassVar[bool] = False  # it moves no position and reads no other, so that K(p, p') stays at p and p'
    is_window: ClassVar[bool] = False  # a mean over windows that slide together: K'(p, p') = mean over u of K(pu, p'u)
    has_rates: ClassVar[bool] = False  # its weights move at rates other than those of the NTK parametrisation
    is_pool: ClassVar[bool] = False  # a mean over all pairs of positions of two blocks
    is_diagonal: ClassVar[bool] = False  # of such a pool: a mean over positions with themselves only
    pools_commute: ClassVar[bool] = False  # pooling may come before it or after it
    keeps_constants: ClassVar[bool] = False  # a field that is the same everywhere stays so
    numbers_pass: ClassVar[bool] = False  # a number that the field before it is multiplied with may stand after it
    is_branching: ClassVar[bool] = False  # it is branches of one field or of several, or what joins these, or both
    is_normalising: ClassVar[bool] = False  # it divides by the deviation over positions
    grows: ClassVar[bool] = False  # what it makes grows faster than its input, by no nonlinearity that it says
    is_structured: ClassVar[bool] = False  # only structured programs have it
    reads_graphs: ClassVar[bool] = False  # it reads the graph that comes with each input
    draws_noise: ClassVar[bool] = False  # an input with itself is not as with an equal one, as noise is its own
    reads_sizes: ClassVar[bool] = False  # what comes out of a smaller input depends on how large that is
    reads_around: ClassVar[bool] = False  # it is a window that reads on around a torus
    is_total: ClassVar[bool] = False  # a window of which each holds every position equally often: all its means are one
    moves_no_weight: ClassVar[bool] = False  # it has its own rates, and weights of variance 0
    span: ClassVar[int] = 1  # positions that each position reads
    sides: ClassVar[tuple[int, ...]] = ()  # of a window that is a box on a grid
    grids: ClassVar[tuple[tuple[int, ...], tuple[int, ...]] | None] = None  # before and after a box
    tables: ClassVar[dict[str, np.ndarray]] = {}  # of indices that it reads, by key
    nonlinearity: ClassVar[DualActivation | None] = None  # that it is
    affine: ClassVar[Any] = None  # the `Affine` that it is: the weights and bias of a linear layer
    held: ClassVar[tuple[tuple[Any, ...], ...]] = ()  # the lists of operations that it holds, one for each branch
    residual: ClassVar[tuple[Any, ...] | None] = None  # operations whose result is added to the field, if that is all

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The fractions of channels of concatenated branches; None if it does not concatenate."""
        return None

    def with_held(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Self:
        """The operation with `change` applied to every list of operations that it holds."""
        return replace(self, branches=tuple(map(change, self.held))) if self.held else self  # type: ignore[type-var]

    def positions_after(self, positions: int) -> int:
        """Number of positions after the operation."""
        return positions

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Possible moves of output positions if input positions move by a permutation (see `moves`); none: unknown.

        one_sided: only one of the two inputs moves, K(m p, p') = K_g(p, p'): weights read positions in the same order.
        """
        if self.stays:
            yield moves

    def blocks_after(self, labels: np.ndarray) -> np.ndarray:
        """The block of each position, −1 where dropped, after the operation merges blocks."""
        return labels

    def at_one_position(self) -> Self:
        """The operation on fields with one remaining position, for fields that are the same everywhere."""
        return self

    def products(self, positions: int) -> int:
        """Multiply-adds per pair of inputs in sums over positions, for K and Θ."""
        return 0

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """(the grid after the operation, whether it is a torus); raises MixedOffsetsError if it mixes pair offsets."""
        if not self.stays:
            raise MixedOffsetsError("pooling before a later layer mixes pair offsets")
        return shape, torus

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """The offset before the operation of pairs with offset `step` after it."""
        return step

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """The level after the operation for a group: `level` as before, or the elements, `lifted`.

        `folded`: the elements are on the grid. Raises MixedOffsetsError if it mixes pair offsets.
        """
        raise MixedOffsetsError("a convolution before the lift, or pooling before a later layer, mixes pair offsets")


class Pointwise(Operation):
    """An operation that acts identically at each position."""

    stays: ClassVar[bool] = True

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """The level, unchanged."""
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
    """The positions that each window of a box reads; OUTSIDE beyond the grid."""
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
    """Moves of windows read slot by slot, K'(p, p') = Σ_u w_u K(p_u, p'_u), the most likely first."""
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
    """Moves of windows read in all pairs, K'(p, p') = mean over u, u' of K(p_u, p'_u')."""
    found = _rows(np.sort(np.where(table < 0, OUTSIDE, moves[table]), axis=1), np.sort(table, axis=1))
    if found is not None:
        yield found


def by_blocks(labels: np.ndarray, blocks: int, moves: Moves) -> Iterator[Moves]:
    """Moves of blocks, if each block is mapped to a block, and dropped positions to dropped ones."""
    found = np.full(blocks, OUTSIDE)
    inside = labels >= 0
    found[labels[inside]] = labels[moves[inside]]
    if (labels[moves] == np.where(inside, found[labels], OUTSIDE)).all() and (
        np.sort(found) == np.arange(blocks)
    ).all():
        yield found


def of_none(moves: Moves) -> Iterator[Moves]:
    """The moves, if they fix all positions."""
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
    """The permutation m with table[m[i]] = moved[i] for all rows, if it exists; equal rows are interchangeable."""
    mixed = np.random.default_rng(0).standard_normal(table.shape[1])  # finds candidates, which are then compared
    here, there = (np.argsort(rows @ mixed, kind="stable") for rows in (moved, table))
    found = np.empty(len(table), np.int64)
    found[here] = there
    return found if np.array_equal(table[found], moved) else None


@dataclass(frozen=True)
class Box(Operation):
    """Mean over a box window on a grid: out(p) = (1/|S|) Σ_u in(stride·p - low + u), wrapped or zero outside."""

    is_positional: ClassVar[bool] = True
    is_window: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    wrap: bool

    @property
    def span(self) -> int:  # type: ignore[override]
        """The largest number of a window's positions inside the grid."""
        return math.prod(map(min, self.window, self.in_shape))

    @property
    def is_padded(self) -> bool:
        """Whether windows reach beyond the grid."""
        return self.wrap or any(self.low) or any(self.high)

    @property
    def reads_sizes(self) -> bool:  # type: ignore[override]
        """Whether smaller inputs have fewer windows."""
        return not self.is_padded and any(n > 1 for n in (*self.window, *self.stride))

    @property
    def table(self) -> np.ndarray:
        """The positions that each window reads, (windows, slots), -1 beyond the grid."""
        return box_table(self.in_shape, self.out_shape, self.window, self.stride, self.low, self.wrap)

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows read slot by slot; if one-sided, slots keep their order."""
        return by_order(self.table, moves) if one_sided else by_slots(self.table, None, moves)

    @property
    def reads_around(self) -> bool:  # type: ignore[override]
        return self.wrap

    @property
    def sides(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.window

    @property
    def grids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:  # type: ignore[override]
        return self.in_shape, self.out_shape

    @property
    def keeps_constants(self) -> bool:  # type: ignore[override]
        """Whether all windows are equivalent, as on a torus."""
        return self.wrap and set(self.stride) == {1}

    def positions_after(self, positions: int) -> int:
        return int(np.prod(self.out_shape, dtype=np.int64))

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """The grid of windows; raises MixedOffsetsError for circular windows on a grid that is no longer a torus."""
        if self.wrap and not torus:
            raise MixedOffsetsError("circular padding after a layer that breaks the torus mixes pair offsets")
        return self.out_shape, self.wrap and all(n % s == 0 for n, s in zip(self.in_shape, self.stride, strict=True))

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """The offset times the stride."""
        return tuple(m * s for m, s in zip(step, self.stride, strict=True))

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """The level as before, if the elements of a folded group are on the grid."""
        return level if folded else super().elements_after(level, lifted, folded)


@dataclass(frozen=True)
class IndexTable(Operation):
    """Weighted mean over a window given by an index table: out(g) = Σ_s weights[s] in(index[g, s])."""

    is_positional: ClassVar[bool] = True
    is_window: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True
    index: FrozenArray  # int32 (positions_out, |S|)
    weights: FrozenArray  # float64 (|S|,), summing to 1

    @property
    def tables(self) -> dict[str, np.ndarray]:  # type: ignore[override]
        return {self.index.key: self.index.array}

    @property
    def span(self) -> int:  # type: ignore[override]
        return int(self.index.array.shape[1])

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows read slot by slot; if one-sided, slots keep their order."""
        index = self.index.array
        return by_order(index, moves) if one_sided else by_slots(index, self.weights.array, moves)

    @property
    def is_total(self) -> bool:  # type: ignore[override]
        """Whether every window contains every position equally often."""
        index, weights = np.sort(self.index.array, axis=1), self.weights.array
        return bool((index == index[0]).all() and np.ptp(weights) <= 1e-15 * np.abs(weights).max())

    def at_one_position(self) -> Self:
        """The first window, which equals all others."""
        return replace(self, index=FrozenArray(self.index.array[:1]))

    def positions_after(self, positions: int) -> int:
        return len(self.index.array)

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """The elements, to which the first table lifts."""
        return lifted


@dataclass(frozen=True)
class Affine(Pointwise):
    """A linear layer's weights and bias: K ← W²K + b², Θ ← K + W²Θ (with the new K)."""

    pools_commute: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    W_var: float
    b_var: float

    @property
    def affine(self) -> Self:
        return self

    @property
    def rates(self) -> tuple[float, float] | None:
        """Rates of weights and bias (see `RatedAffine`), if not those of the NTK parametrisation."""
        return None

    def scaled(self, weights: float, bias: float) -> Self:
        """The operation with the variances of weights and bias multiplied by these factors."""
        return replace(self, W_var=self.W_var * weights, b_var=self.b_var * bias)

    def with_bias(self, factor: Any) -> Self:
        """The operation with the standard deviation of the bias multiplied by `factor`, which may be traced."""
        return replace(self, b_var=(self.b_var**0.5 * factor) ** 2)


@dataclass(frozen=True)
class RatedAffine(Affine):
    """An affine map in another parametrisation: Θ ← w K + b + W²Θ with the old K, `weight_rate` w, `bias_rate` b."""

    has_rates: ClassVar[bool] = True
    weight_rate: float
    bias_rate: float

    @property
    def rates(self) -> tuple[float, float]:
        """(rate of the weights, rate of the bias)."""
        return self.weight_rate, self.bias_rate

    def scaled(self, weights: float, bias: float) -> Self:
        """The operation with variances and rates of weights and bias multiplied by these factors."""
        found = super().scaled(weights, bias)
        return replace(found, weight_rate=self.weight_rate * weights, bias_rate=self.bias_rate * bias)

    def with_bias(self, factor: Any) -> Self:
        """The operation with the standard deviation of the bias multiplied by `factor`, and its rate accordingly."""
        return replace(super().with_bias(factor), bias_rate=self.bias_rate * factor**2)

    @property
    def moves_no_weight(self) -> bool:  # type: ignore[override]
        return not self.W_var


@dataclass(frozen=True)
class Dual(Pointwise):
    """A nonlinearity: K ← E[φ(u)φ(v)], Θ ← Θ·E[φ'(u)φ'(v)]."""

    needs_variances: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    activation: DualActivation

    @property
    def nonlinearity(self) -> DualActivation:  # type: ignore[override]
        return self.activation


@dataclass(frozen=True)
class Decouple(Operation):
    """Independent weights per position: K and Θ vanish for p ≠ p'."""

    is_positional: ClassVar[bool] = True
    stays: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The same moves; if one-sided, only the identity, since each position has its own weights."""
        return of_none(moves) if one_sided else iter((moves,))


@dataclass(frozen=True)
class Blocks(Operation):
    """An operation on blocks of positions; those with label -1 are dropped.

    `box`: the blocks as windows on a grid, if possible.
    """

    labels: FrozenArray  # int32 (positions,), block number or -1
    blocks: int
    box: Box | None = None

    @property
    def reads_sizes(self) -> bool:  # type: ignore[override]
        return self.box is not None

    @property
    def tables(self) -> dict[str, np.ndarray]:  # type: ignore[override]
        return {self.labels.key: self.labels.array}

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        return by_blocks(self.labels.array, self.blocks, moves)

    def positions_after(self, positions: int) -> int:
        return self.blocks

    def products(self, positions: int) -> int:
        """Multiply-adds; each position is in at most one block."""
        return 2 * positions * (positions + self.blocks)


@dataclass(frozen=True)
class Pool(Blocks):
    """Average over blocks of positions: K(A,A') = mean of K over A × A'."""

    is_pool: ClassVar[bool] = True
    pools_commute: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def blocks_after(self, labels: np.ndarray) -> np.ndarray:
        """The block of the block that contains each position."""
        return np.where(labels >= 0, self.labels.array[np.maximum(labels, 0)], -1).astype(np.int32)


@dataclass(frozen=True)
class WindowPool(Operation):
    """Average over windows with overlaps, gaps or padding: K'(p,p') = mean over u, u' of K(s·p+u, s·p'+u')."""

    is_positional: ClassVar[bool] = True
    is_pool: ClassVar[bool] = True
    reads_sizes: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True
    box: Box

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.box.out_shape

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        return by_sets(self.box.table, moves)

    def positions_after(self, positions: int) -> int:
        return int(np.prod(self.out_shape, dtype=np.int64))


@dataclass(frozen=True)
class Flattening(Operation):
    """Positions become channels: K = mean over p of K(p,p)."""

    is_pool: ClassVar[bool] = True
    is_diagonal: ClassVar[bool] = True
    pools_commute: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The move of one position; if one-sided, only for the identity, since each position has its own weights."""
        return (found[:1] * 0 for found in (of_none(moves) if one_sided else (moves,)))

    def positions_after(self, positions: int) -> int:
        return 1


@dataclass(frozen=True)
class Standardise(Pointwise):
    """Division by σ, σ² = eps + the mean of q over positions, of a Gaussian field: K' = K/(σσ'), Θ' = Θ/(σσ')."""

    is_positional: ClassVar[bool] = True
    is_normalising: ClassVar[bool] = True
    needs_variances: ClassVar[bool] = True
    eps: float

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The same moves, since the standard deviation is over all positions."""
        yield moves
