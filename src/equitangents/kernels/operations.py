"""Operations on fields over positions: windows, linear layers, nonlinearities, pooling, standardisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from equitangents.kernels.operation import (
    DualActivation,
    FrozenArray,
    L,
    NoFibresError,
    Operation,
    Pointwise,
    box_table,
    by_blocks,
    by_order,
    by_sets,
    by_slots,
    of_none,
)

if TYPE_CHECKING:
    from equitangents.kernels.operation import Moves


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
    def span(self) -> int:
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

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows, which are read slot by slot; alone, slots keep their order."""
        return by_order(self.table, moves) if alone else by_slots(self.table, None, moves)

    @property
    def reads_around(self) -> bool:
        """Whether windows at an edge of the grid go on at the opposite one."""
        return self.wrap

    @property
    def sides(self) -> tuple[int, ...]:
        """Number of positions of the window along each axis."""
        return self.window

    @property
    def grids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The grids of positions and of windows."""
        return self.in_shape, self.out_shape

    @property
    def keeps_constants(self) -> bool:  # type: ignore[override]
        """Whether each window is like the others, on a torus."""
        return self.wrap and set(self.stride) == {1}

    @property
    def keeps_torus(self) -> bool:
        """Whether what follows is a torus, if it stands on one."""
        return self.wrap and all(n % s == 0 for n, s in zip(self.in_shape, self.stride, strict=True))

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return int(np.prod(self.out_shape, dtype=np.int64))

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """The grid of windows; raises NoFibresError where these read around a torus that is none any more."""
        if self.wrap and not torus:
            raise NoFibresError("circular padding after a layer that breaks the torus mixes fibres")
        return self.out_shape, self.keeps_torus

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """A stride of s multiplies the offsets below it by s."""
        return tuple(m * s for m, s in zip(step, self.stride, strict=True))

    def elements_after(self, level: L, lifted: L, folded: bool) -> L:
        """Where they were, if the elements of a folded group stand on the grid."""
        return level if folded else super().elements_after(level, lifted, folded)


@dataclass(frozen=True)
class Table(Operation):
    """Weighted mean over a window given by an index table: out(g) = Σ_s weights[s] in(index[g, s])."""

    is_positional: ClassVar[bool] = True
    is_window: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True
    index: FrozenArray  # int32 (positions_out, |S|)
    weights: FrozenArray  # float64 (|S|,), summing to 1

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Which positions each window reads, by key."""
        return {self.index.key: self.index.array}

    @property
    def span(self) -> int:
        """The positions of a window."""
        return int(self.index.array.shape[1])

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows, which are read slot by slot; alone, slots keep their order."""
        index = self.index.array
        return by_order(index, moves) if alone else by_slots(index, self.weights.array, moves)

    @property
    def is_total(self) -> bool:
        """Whether every window holds every position it can read equally often."""
        index, weights = np.sort(self.index.array, axis=1), self.weights.array
        return bool((index == index[0]).all() and np.ptp(weights) <= 1e-15 * np.abs(weights).max())

    def at_one_position(self) -> Self:
        """The first window, which equals all others."""
        return replace(self, index=FrozenArray(self.index.array[:1]))

    def positions_after(self, positions: int) -> int:
        """One for each window."""
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
        """This operation, whose weights and bias are its own."""
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
    def moves_no_weight(self) -> bool:
        """Whether the weights have variance 0."""
        return not self.W_var


@dataclass(frozen=True)
class Dual(Pointwise):
    """A nonlinearity: K ← E[φ(u)φ(v)], Θ ← Θ·E[φ'(u)φ'(v)]."""

    needs_variances: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    activation: DualActivation

    @property
    def nonlinearity(self) -> DualActivation:
        """φ, by its activation kernel."""
        return self.activation


@dataclass(frozen=True)
class Decouple(Operation):
    """Different positions share no weights: K and Θ vanish where p ≠ p'."""

    is_positional: ClassVar[bool] = True
    stays: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """The same; alone, only the identity, since each position has its own weights."""
        return of_none(moves) if alone else iter((moves,))


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
        """Whether the blocks are windows."""
        return self.box is not None

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Which block each position is in, by key."""
        return {self.labels.key: self.labels.array}

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """Yield the permutation of blocks, if every block is carried to a block."""
        return by_blocks(self.labels.array, self.blocks, moves)

    def positions_after(self, positions: int) -> int:
        """One for each block."""
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
        """The grid of windows."""
        return self.box.out_shape

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """Yield permutations of windows, all pairs of whose positions are read."""
        return by_sets(self.box.table, moves)

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return int(np.prod(self.out_shape, dtype=np.int64))


@dataclass(frozen=True)
class Flatten(Operation):
    """Positions become channels: K = mean over p of K(p,p)."""

    is_pool: ClassVar[bool] = True
    is_diagonal: ClassVar[bool] = True
    pools_commute: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """None moves where one is left; alone, only from the identity, since each position has its own weights."""
        return (found[:1] * 0 for found in (of_none(moves) if alone else (moves,)))

    def positions_after(self, positions: int) -> int:
        """One position is left."""
        return 1


@dataclass(frozen=True)
class Standardise(Pointwise):
    """Division by σ, σ² = eps + the mean of q over positions, of a Gaussian field: K' = K/(σσ'), Θ' = Θ/(σσ')."""

    is_positional: ClassVar[bool] = True
    is_normalising: ClassVar[bool] = True
    needs_variances: ClassVar[bool] = True
    eps: float

    def moves_after(self, moves: Moves, alone: bool = False) -> Iterator[Moves]:
        """As before it, since the deviation is over all positions."""
        yield moves
