"""The field program: what a network does to kernels, as data that engines execute.

A program is a list of operations on the squared distance D(p,p') = q1(p) + q2(p') - 2 K(p,p'), the tangent kernel
Θ(p,p') and the variances q1, q2 of the two inputs, over pairs of positions (p, p'). Layers lower to it and know no
engine; engines execute it and know no layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np


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


class HashedOnce:
    """Frozen dataclasses that know their hash from the beginning: they are keys of many caches, asked in every call.

    They name `__hash__` themselves, since dataclasses make one otherwise. A copy in another process hashes anew.
    """

    def __post_init__(self) -> None:
        try:
            found = hash(self._values())
        except TypeError:  # it holds numbers of a JAX program that is traced, and is no key
            return
        object.__setattr__(self, "_hash", found)

    def __hash__(self) -> int:
        found = self.__dict__.get("_hash")
        return hash(self._values()) if found is None else int(found)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]


class DualActivation(Protocol):
    """How a nonlinearity φ acts on a pair of jointly Gaussian fields (u, v); see `equitangents.kernels.duals`."""

    def pair(self, d: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """(E[(φ(u) - φ(v))²], E[φ'(u) φ'(v)]) for d = E[(u - v)²], q1 = E[u²], q2 = E[v²]."""

    def covariance(self, k: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """(E[φ(u) φ(v)], E[φ'(u) φ'(v)]) for k = E[u v]: for variances so different that d does not resolve k."""

    def moments(self, q: Any) -> tuple[Any, Any]:
        """(E[φ(u)²], E[φ(u)]) for q = E[u²]."""


class Operation:
    """What an operation says of itself, for planners and costs that walk over programs.

    An operation that says nothing acts at each position alone.
    """

    is_positional: ClassVar[bool] = False  # it reads several positions, or tells them apart, without pooling them
    needs_variances: ClassVar[bool] = False  # K alone does not say what it does

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The tables of indices that it reads, by key."""
        return {}

    def positions_after(self, positions: int) -> int:
        """How many positions it leaves of so many."""
        return positions

    def products(self, positions: int) -> int:
        """Multiply-adds of a pair of inputs in its sums over positions, of K and of Θ."""
        return 0


@dataclass(frozen=True)
class Box(Operation):
    """Mean over a box window on a grid: out(p) = (1/|S|) Σ_u in(stride·p - low + u), wrapped or zero outside."""

    is_positional: ClassVar[bool] = True
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    wrap: bool

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return int(np.prod(self.out_shape, dtype=np.int64))


@dataclass(frozen=True)
class Table(Operation):
    """Weighted mean over a window given by an index table: out(g) = Σ_s weights[s] in(index[g, s])."""

    is_positional: ClassVar[bool] = True
    index: FrozenArray  # int32 (positions_out, |S|)
    weights: FrozenArray  # float64 (|S|,), summing to 1

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Which positions each window reads, by key."""
        return {self.index.key: self.index.array}

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return len(self.index.array)


@dataclass(frozen=True)
class Affine(Operation):
    """A linear layer's weights and bias: K ← W²K + b², Θ ← K + W²Θ (with the new K)."""

    W_var: float
    b_var: float

    @property
    def rates(self) -> tuple[float, float] | None:
        """How fast weights and bias move (see `RatedAffine`), where that is not as in the NTK parametrisation."""
        return None


@dataclass(frozen=True)
class RatedAffine(Affine):
    """An affine map in another parametrisation: Θ ← w K + b + W²Θ with the old K, `weight_rate` w, `bias_rate` b."""

    weight_rate: float
    bias_rate: float

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of the weights and of the bias, in this order."""
        return self.weight_rate, self.bias_rate


@dataclass(frozen=True)
class Dual(Operation):
    """A nonlinearity: K ← E[φ(u)φ(v)], Θ ← Θ·E[φ'(u)φ'(v)]."""

    needs_variances: ClassVar[bool] = True
    activation: DualActivation


@dataclass(frozen=True)
class Decouple(Operation):
    """Different positions share no weights: K and Θ vanish where p ≠ p'."""

    is_positional: ClassVar[bool] = True


@dataclass(frozen=True)
class Pool(Operation):
    """Average over blocks of positions: K(A,A') = mean of K over A × A'; positions with label -1 are dropped.

    `box` are the windows on a grid that the blocks are, if they are any.
    """

    labels: FrozenArray  # int32 (positions,), block number or -1
    blocks: int
    box: Box | None = None

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
class WindowPool(Operation):
    """Average over windows that overlap, leave gaps or are padded: K'(p,p') = mean over u, u' of K(s·p+u, s·p'+u')."""

    is_positional: ClassVar[bool] = True
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

    def positions_after(self, positions: int) -> int:
        """One position is left."""
        return 1


@dataclass(frozen=True)
class Parallel(Operation):
    """What several branches, each a list of operations, make of one field: their sum, or their channels side by side.

    Sums: K = Σ K_i + Σ_{i≠j} m_i m_j', Θ = Σ Θ_i. With `shares` w_i of the channels: K = Σ w_i K_i, Θ = Σ w_i Θ_i.
    A branch without operations is the field itself, so that a residual block is the sum of () and another.
    """

    needs_variances: ClassVar[bool] = True
    branches: tuple[tuple[Op, ...], ...]
    shares: tuple[float, ...] | None = None

    @property
    def residual(self) -> tuple[Op, ...] | None:
        """The operations whose result is added to the field itself; None where that is not all."""
        alone = self.shares is None and len(self.branches) == 2 and not self.branches[0]
        return self.branches[1] if alone else None


def residual(ops: tuple[Any, ...]) -> Parallel:
    """A residual block: the field plus what `ops` make of it."""
    return Parallel(((), ops))


@dataclass(frozen=True)
class Standardise(Operation):
    """Division by σ, σ² = eps + the mean of q over positions, of a Gaussian field: K' = K/(σσ'), Θ' = Θ/(σσ')."""

    is_positional: ClassVar[bool] = True
    needs_variances: ClassVar[bool] = True
    eps: float


Op = Box | Table | Affine | Dual | Decouple | Pool | WindowPool | Flatten | Parallel | Standardise


def inside(op: Any) -> tuple[tuple[Any, ...], ...]:
    """The lists of operations that an operation holds."""
    return op.branches if isinstance(op, Parallel) else ()


def with_inside(op: Any, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """The operation with every list that it holds changed."""
    return replace(op, branches=tuple(map(change, op.branches))) if isinstance(op, Parallel) else op


@dataclass(frozen=True)
class GroupFibres:
    """How the elements q of a lifted network's group move positions: before the lift x → qx, after it g → qg.

    `folded` > 1: each position of the field stands for that many elements of the group (those that differ in their
    rotation), because the fields do not depend on the rotation. The field then lives on the grid, moved as the input.
    """

    points: FrozenArray  # int32 (|G|, positions of the input)
    elements: FrozenArray  # int32 (|G|, positions of the lifted field)
    folded: int = 1

    def program(self, shape: tuple[int, ...], ops: tuple[Op, ...]) -> Program:
        """The program of lowered layers that lift to the group."""
        return Program(shape, ops, self)


@dataclass(frozen=True)
class Program(HashedOnce):
    """Operations on fields over the input's positions, in order.

    `shape` is the input's grid of positions, () for plain vectors. `lift` is set for networks that lift to a group.
    """

    shape: tuple[int, ...]
    ops: tuple[Op, ...]
    lift: GroupFibres | None = None
    form: Literal["auto", "pairs"] = field(default="auto")

    __hash__ = HashedOnce.__hash__


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    """Every table of the program, by key: engines take them as run-time arguments rather than as constants."""
    found: dict[str, np.ndarray] = {}

    def visit(ops: tuple[Op, ...]) -> None:
        for op in ops:
            found.update(op.tables)
            for held in inside(op):
                visit(held)

    visit(program.ops)
    if program.lift is not None:
        found[program.lift.points.key] = program.lift.points.array
        found[program.lift.elements.key] = program.lift.elements.array
    return found
