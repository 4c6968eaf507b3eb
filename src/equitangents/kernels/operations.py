"""Operations of programs: windows, linear layers, nonlinearities, pools; what planners, costs and engines ask of them.

Planners, costs and engines walk over programs by what operations say; only their rules ask which operation it is.

Where a group moves positions before an operation, those after it move, too: m[p] is where position p goes. A field is
moved where K_g(m p, m p') = K(p, p') for all pairs of positions, whatever K is. A window is carried along if an order
of its slots takes the moved window of every position to that of another position. All entries of all tables are
compared, and no values of inputs.
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
    """Frozen dataclasses that remember their hash, for use as cache keys.

    They name `__hash__` themselves, since dataclasses make one otherwise. A copy in another process hashes anew.
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

    One that says nothing mixes pair offsets, reads one position at a time, and holds no other operations.
    """

    label: ClassVar[str]  # how messages name it, where that is not its class

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
    def name(self) -> str:
        """Name of the operation in messages."""
        return getattr(self, "label", type(self).__name__)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the channels of branches that it puts side by side; None where it does not."""
        return None

    def with_held(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Self:
        """The operation with every list that it holds changed."""
        return replace(self, branches=tuple(map(change, self.held))) if self.held else self  # type: ignore[type-var]

    def positions_after(self, positions: int) -> int:
        """Number of positions after the operation."""
        return positions

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Where positions after it go if those before it move by a permutation, see `moves`; none: it is not known.

        one_sided: only one of the two inputs moves, K(m p, p') = K_g(p, p'): weights read positions in the same order.
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
        """(the grid after it, whether that is a torus); raises MixedOffsetsError where it mixes pair offsets."""
        if not self.stays:
            raise MixedOffsetsError("pooling before a later layer mixes pair offsets")
        return shape, torus

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """The offset before the operation of pairs whose offset after it is `step`."""
        return step

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """Where a group has moved positions after it: on `level` as before, or on the elements, `lifted`.

        `folded`: these stand on the grid. Raises MixedOffsetsError where it mixes pair offsets.
        """
        raise MixedOffsetsError("a convolution before the lift, or pooling before a later layer, mixes pair offsets")


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
        """The positions of a window that lie on the grid, at most."""
        return math.prod(map(min, self.window, self.in_shape))

    @property
    def is_padded(self) -> bool:
        """Whether windows reach beyond the grid."""
        return self.wrap or any(self.low) or any(self.high)

    @property
    def reads_sizes(self) -> bool:  # type: ignore[override]
        """Whether it has windows that smaller inputs have fewer of."""
        return not self.is_padded and any(n > 1 for n in (*self.window, *self.stride))

    @property
    def table(self) -> np.ndarray:
        """The positions that each window reads, (windows, slots), -1 beyond the grid."""
        return box_table(self.in_shape, self.out_shape, self.window, self.stride, self.low, self.wrap)

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows, which are read slot by slot; alone, slots keep their order."""
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
        """Whether each window is like the others, on a torus."""
        return self.wrap and set(self.stride) == {1}

    def positions_after(self, positions: int) -> int:
        return int(np.prod(self.out_shape, dtype=np.int64))

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """The grid of windows; raises MixedOffsetsError where these read around a torus that is none any more."""
        if self.wrap and not torus:
            raise MixedOffsetsError("circular padding after a layer that breaks the torus mixes pair offsets")
        return self.out_shape, self.wrap and all(n % s == 0 for n, s in zip(self.in_shape, self.stride, strict=True))

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """A stride of s multiplies the offsets below it by s."""
        return tuple(m * s for m, s in zip(step, self.stride, strict=True))

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """Where they were, if the elements of a folded group stand on the grid."""
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
        """Yield permutations of windows, which are read slot by slot; alone, slots keep their order."""
        index = self.index.array
        return by_order(index, moves) if one_sided else by_slots(index, self.weights.array, moves)

    @property
    def is_total(self) -> bool:  # type: ignore[override]
        """Whether every window holds every position it can read equally often."""
        index, weights = np.sort(self.index.array, axis=1), self.weights.array
        return bool((index == index[0]).all() and np.ptp(weights) <= 1e-15 * np.abs(weights).max())

    def at_one_position(self) -> Self:
        """The first window, which equals all others."""
        return replace(self, index=FrozenArray(self.index.array[:1]))

    def positions_after(self, positions: int) -> int:
        return len(self.index.array)

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """The elements, on which the first table lifts."""
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
        """It with the variances of weights and bias times these numbers."""
        return replace(self, W_var=self.W_var * weights, b_var=self.b_var * bias)

    def with_bias(self, factor: Any) -> Self:
        """It with `factor` times the standard deviation of the bias, which may be traced."""
        return replace(self, b_var=(self.b_var**0.5 * factor) ** 2)


@dataclass(frozen=True)
class RatedAffine(Affine):
    """An affine map in another parametrisation: Θ ← w K + b + W²Θ with the old K, `weight_rate` w, `bias_rate` b."""

    has_rates: ClassVar[bool] = True
    weight_rate: float
    bias_rate: float

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of the weights and of the bias, in this order."""
        return self.weight_rate, self.bias_rate

    def scaled(self, weights: float, bias: float) -> Self:
        """It with variances and rates of weights and bias times these numbers."""
        found = super().scaled(weights, bias)
        return replace(found, weight_rate=self.weight_rate * weights, bias_rate=self.bias_rate * bias)

    def with_bias(self, factor: Any) -> Self:
        """It with `factor` times the standard deviation of the bias, and its rate."""
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
    """Different positions share no weights: K and Θ vanish where p ≠ p'."""

    is_positional: ClassVar[bool] = True
    stays: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The same; alone, only the identity, since each position has its own weights."""
        return of_none(moves) if one_sided else iter((moves,))


@dataclass(frozen=True)
class Blocks(Operation):
    """An operation on blocks of positions; those with label -1 are dropped.

    `box` are the windows on a grid that the blocks are, if they are any.
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
        """A position is in one block at most."""
        return 2 * positions * (positions + self.blocks)


@dataclass(frozen=True)
class Pool(Blocks):
    """Average over blocks of positions: K(A,A') = mean of K over A × A'."""

    is_pool: ClassVar[bool] = True
    pools_commute: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def blocks_after(self, labels: np.ndarray) -> np.ndarray:
        """The block of the block that each position is in."""
        return np.where(labels >= 0, self.labels.array[np.maximum(labels, 0)], -1).astype(np.int32)


@dataclass(frozen=True)
class WindowPool(Operation):
    """Average over windows that overlap, leave gaps or are padded: K'(p,p') = mean over u, u' of K(s·p+u, s·p'+u')."""

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
        """None moves where one is left; alone, only from the identity, since each position has its own weights."""
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
        """As before it, since the deviation is over all positions."""
        yield moves
