"""The field program: what a network does to kernels, as data that engines execute.

A program is a list of operations on the squared distance D(p,p') = q1(p) + q2(p') - 2 K(p,p'), the tangent kernel
Θ(p,p') and the variances q1, q2 of the two inputs, over pairs of positions (p, p'). Layers lower to it and know no
engine; engines execute it and know no layer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
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


class NoFibresError(Exception):
    """The program mixes fibres: only all pairs of positions will do."""


class Operation:
    """What an operation says of itself, for planners, costs and engines that walk over programs.

    One that says nothing mixes fibres, reads one position at a time, and holds no other operations.
    """

    said: ClassVar[str]  # how messages name it, where that is not its class

    is_positional: ClassVar[bool] = False  # it reads several positions, or tells them apart, without pooling them
    needs_variances: ClassVar[bool] = False  # K alone does not say what it does
    stays: ClassVar[bool] = False  # it moves no position and reads no other, so that K(p, p') stays at p and p'
    is_window: ClassVar[bool] = False  # a mean over windows that slide together: K'(p, p') = mean over u of K(pu, p'u)
    has_rates: ClassVar[bool] = False  # its weights move at rates other than those of the NTK parametrisation
    is_pool: ClassVar[bool] = False  # a mean over all pairs of positions of two blocks

    @property
    def name(self) -> str:
        """How messages name it."""
        return getattr(self, "said", type(self).__name__)

    @property
    def span(self) -> int:
        """How many positions each position reads."""
        return 1

    @property
    def held(self) -> tuple[tuple[Any, ...], ...]:
        """The lists of operations that it holds, one for each branch."""
        return ()

    def with_held(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
        """The operation with every list that it holds changed."""
        return replace(self, branches=tuple(map(change, self.held))) if self.held else self  # type: ignore[type-var]

    @property
    def moves_no_weight(self) -> bool:
        """Whether it has rates of its own, and weights of variance 0, which they cannot be set against."""
        return False

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

    def grid_after(self, shape: tuple[int, ...], torus: bool) -> tuple[tuple[int, ...], bool]:
        """(the grid after it, whether that is a torus) along a fibre; raises NoFibresError where it mixes fibres."""
        if not self.stays:
            raise NoFibresError("pooling before a later layer mixes fibres")
        return shape, torus

    def offset_before(self, step: tuple[int, ...]) -> tuple[int, ...]:
        """The offset before it that a fibre's partners have whose offset after it is `step`."""
        return step

    def elements_after(self, level: Any, lifted: Any, folded: bool) -> Any:
        """Where a group has moved positions after it: on `level` as before, or on the elements, `lifted`.

        `folded`: these stand on the grid. Raises NoFibresError where it mixes fibres.
        """
        raise NoFibresError("a convolution before the lift, or pooling before a later layer, mixes fibres")


class Pointwise(Operation):
    """An operation that does the same at each position."""

    stays: ClassVar[bool] = True

    def elements_after(self, level: Any, lifted: Any, folded: bool) -> Any:
        """Where they were, since it acts at each position alone."""
        return level


@dataclass(frozen=True)
class Box(Operation):
    """Mean over a box window on a grid: out(p) = (1/|S|) Σ_u in(stride·p - low + u), wrapped or zero outside."""

    is_positional: ClassVar[bool] = True
    is_window: ClassVar[bool] = True
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

    def elements_after(self, level: Any, lifted: Any, folded: bool) -> Any:
        """Where they were, if the elements of a folded group stand on the grid."""
        return level if folded else super().elements_after(level, lifted, folded)


@dataclass(frozen=True)
class Table(Operation):
    """Weighted mean over a window given by an index table: out(g) = Σ_s weights[s] in(index[g, s])."""

    is_positional: ClassVar[bool] = True
    is_window: ClassVar[bool] = True
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

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return len(self.index.array)

    def elements_after(self, level: Any, lifted: Any, folded: bool) -> Any:
        """The elements, on which the first table lifts."""
        return lifted


@dataclass(frozen=True)
class Affine(Pointwise):
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

    has_rates: ClassVar[bool] = True
    weight_rate: float
    bias_rate: float

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of the weights and of the bias, in this order."""
        return self.weight_rate, self.bias_rate

    @property
    def moves_no_weight(self) -> bool:
        """Whether the weights have variance 0."""
        return not self.W_var


@dataclass(frozen=True)
class Dual(Pointwise):
    """A nonlinearity: K ← E[φ(u)φ(v)], Θ ← Θ·E[φ'(u)φ'(v)]."""

    needs_variances: ClassVar[bool] = True
    activation: DualActivation


@dataclass(frozen=True)
class Decouple(Operation):
    """Different positions share no weights: K and Θ vanish where p ≠ p'."""

    is_positional: ClassVar[bool] = True
    stays: ClassVar[bool] = True


@dataclass(frozen=True)
class Pool(Operation):
    """Average over blocks of positions: K(A,A') = mean of K over A × A'; positions with label -1 are dropped.

    `box` are the windows on a grid that the blocks are, if they are any.
    """

    is_pool: ClassVar[bool] = True
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
    is_pool: ClassVar[bool] = True
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
    def held(self) -> tuple[tuple[Op, ...], ...]:
        """The branches, of which each begins with the same field."""
        return self.branches

    @property
    def residual(self) -> tuple[Op, ...] | None:
        """The operations whose result is added to the field itself; None where that is not all."""
        alone = self.shares is None and len(self.branches) == 2 and not self.branches[0]
        return self.branches[1] if alone else None


def residual(ops: tuple[Any, ...]) -> Parallel:
    """A residual block: the field plus what `ops` make of it."""
    return Parallel(((), ops))


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
    found = {key: table for op in flat(program.ops) for key, table in op.tables.items()}
    if program.lift is not None:
        found[program.lift.points.key] = program.lift.points.array
        found[program.lift.elements.key] = program.lift.elements.array
    return found
