"""The field program: what a network does to kernels, as data that engines execute.

A program is a list of operations on the squared distance D(p,p') = q1(p) + q2(p') - 2 K(p,p'), the tangent kernel
Θ(p,p') and the variances q1, q2 of the two inputs, over pairs of positions (p, p'). Layers lower to it and know no
engine; engines execute it and know no layer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from equitangents.kernels.operation import DualActivation, HashedOnce, L, NoFibresError, Operation, Pointwise


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
    def sides(self) -> tuple[int, ...]:
        """How many positions the window has along each axis."""
        return self.window

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

    @property
    def is_total(self) -> bool:
        """Whether every window holds every position it can read equally often."""
        index, weights = np.sort(self.index.array, axis=1), self.weights.array
        return bool((index == index[0]).all() and np.ptp(weights) <= 1e-15 * np.abs(weights).max())

    def at_one_position(self) -> Self:
        """The first window stands for all."""
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
    def rates(self) -> tuple[float, float] | None:
        """How fast weights and bias move (see `RatedAffine`), where that is not as in the NTK parametrisation."""
        return None

    def scaled(self, weights: float, bias: float) -> Self:
        """It with the variances of weights and bias times these numbers."""
        return replace(self, W_var=self.W_var * weights, b_var=self.b_var * bias)


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
        """φ."""
        return self.activation


@dataclass(frozen=True)
class Decouple(Operation):
    """Different positions share no weights: K and Θ vanish where p ≠ p'."""

    is_positional: ClassVar[bool] = True
    stays: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True


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

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return int(np.prod(self.out_shape, dtype=np.int64))


@dataclass(frozen=True)
class Flatten(Operation):
    """Positions become channels: K = mean over p of K(p,p)."""

    is_pool: ClassVar[bool] = True
    pools_commute: ClassVar[bool] = True
    numbers_pass: ClassVar[bool] = True

    def positions_after(self, positions: int) -> int:
        """One position is left."""
        return 1


@dataclass(frozen=True)
class Join:
    """One field of several, by their numbers: the sum, or with `shares` w_i of the channels these side by side.

    Sums: K = Σ K_i + Σ_{i≠j} m_i m_j', Θ = Σ Θ_i. With shares: K = Σ w_i K_i, Θ = Σ w_i Θ_i.
    """

    fields: tuple[int, ...]
    shares: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Parallel(Operation):
    """Branches, each a list of operations, and joins: one field goes into all, or as many fields each into its own.

    Without branches the fields are joined as they are, without joins they go on side by side, up to the next. A branch
    without operations is the field itself, so that a residual block is the sum of () and another.
    """

    branches: tuple[tuple[Any, ...], ...]
    joins: tuple[Join, ...]

    @property
    def said(self) -> str:  # type: ignore[override]
        """How messages name it."""
        if self.is_closed:
            return type(self).__name__
        if not self.joins:
            return "parallel branches"
        return "sums" if self.shares is None else "concatenation"

    @property
    def held(self) -> tuple[tuple[Any, ...], ...]:
        """What is done to the field that comes in, one list of operations a branch."""
        return self.branches

    @property
    def is_closed(self) -> bool:
        """Whether one field goes into all branches, and one comes out."""
        return bool(self.branches) and [join.fields for join in self.joins] == [tuple(range(len(self.branches)))]

    @property
    def is_structured(self) -> bool:  # type: ignore[override]
        """Whether other programs than structured ones do not have it: it leaves fields side by side, or reads them."""
        return not self.is_closed

    @property
    def needs_variances(self) -> bool:  # type: ignore[override]
        """Whether it sums or joins branches; their means are then read."""
        return self.is_closed

    @property
    def keeps_constants(self) -> bool:  # type: ignore[override]
        """Whether all operations of its branches do."""
        return bool(self.branches) and all(op.keeps_constants for ops in self.branches for op in ops)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the channels, of its first join."""
        return self.joins[0].shares

    @property
    def residual(self) -> tuple[Op, ...] | None:
        """The operations whose result is added to the field itself; None where that is not all."""
        alone = self.is_closed and self.shares is None and len(self.branches) == 2 and not self.branches[0]
        return self.branches[1] if alone else None


def closed(branches: tuple[tuple[Any, ...], ...], shares: tuple[float, ...] | None = None) -> Parallel:
    """Branches of one field and their sum, or with `shares` their channels side by side."""
    return Parallel(branches, (Join(tuple(range(len(branches))), shares),))


def residual(ops: tuple[Any, ...]) -> Parallel:
    """A residual block: the field plus what `ops` make of it."""
    return closed(((), ops))


@dataclass(frozen=True)
class Standardise(Pointwise):
    """Division by σ, σ² = eps + the mean of q over positions, of a Gaussian field: K' = K/(σσ'), Θ' = Θ/(σσ')."""

    is_positional: ClassVar[bool] = True
    needs_variances: ClassVar[bool] = True
    eps: float


Op = Box | Table | Affine | Dual | Decouple | Pool | WindowPool | Flatten | Parallel | Standardise


def flat(ops: Iterable[Any]) -> Iterator[Any]:
    """All operations, those inside branches behind the one that holds them."""
    for op in ops:
        yield op
        for held in op.held:
            yield from flat(held)


@dataclass(frozen=True)
class GroupFibres:
    """How the elements q of a lifted network's group move positions: before the lift x → qx, after it g → qg.

    `folded` > 1: each position of the field stands for that many elements of the group (those that differ in their
    rotation), because the fields do not depend on the rotation. The field then lives on the grid, moved as the input.
    """

    points: FrozenArray  # int32 (|G|, positions of the input)
    elements: FrozenArray  # int32 (|G|, positions of the lifted field)
    folded: int = 1

    def program(self, shape: tuple[int, ...], ops: tuple[Op, ...]) -> Program[Positions]:
        """The program of lowered layers that lift to the group."""
        return Program(Positions(shape, self), ops)


@dataclass(frozen=True)
class Positions:
    """The space of fields over positions: a grid of `shape`, () for plain vectors, and behind a lift a finite group."""

    shape: tuple[int, ...]
    lift: GroupFibres | None = None


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    S = TypeVarWithDefault("S", default=Positions)  # `Program` alone is one on positions
else:
    S = TypeVar("S")


@dataclass(frozen=True)
class Program(HashedOnce, Generic[S]):
    """Operations in order on fields over a space.

    The space says which operations there are: `Positions`, or one of the rooms beside this file, which are
    `StructuredPositions` (with what each input brings along), `Sphere`, `Points` and `Turning`. Asked to, a program on
    positions runs over all "pairs".
    """

    space: S
    ops: tuple[Any, ...]
    form: Literal["auto", "pairs"] = field(default="auto")

    __hash__ = HashedOnce.__hash__

    @property
    def shape(self: Program[Positions] | Program[Any]) -> tuple[int, ...]:
        """The grid of positions of a program on one, () for plain vectors."""
        return self.space.shape

    @property
    def lift(self: Program[Positions]) -> GroupFibres | None:
        """How the group of a lifted network moves positions."""
        return self.space.lift


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    """Every table of the program, by key: engines take them as run-time arguments rather than as constants."""
    found = {key: table for op in flat(program.ops) for key, table in op.tables.items()}
    lift = program.lift
    if lift is not None:
        found[lift.points.key] = lift.points.array
        found[lift.elements.key] = lift.elements.array
    return found
