"""The field program: a network's action on kernels, as data that engines execute.

A program is a list of operations on the squared distance D(p,p') = q1(p) + q2(p') - 2 K(p,p'), the tangent kernel
Θ(p,p') and the variances q1, q2 of the two inputs, over pairs of positions (p, p'). Layers lower to programs and know
no engine; engines execute programs and know no layer. Operations on one field are in `operations.py`; branches, lists
of operations on one field or on as many fields, and their joins, are here.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from equitangents.errors import InvalidTypeError
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flattening,
    FrozenArray,
    HashedOnce,
    IndexTable,
    Operation,
    Pool,
    Standardise,
    WindowPool,
)


@dataclass(frozen=True)
class ParallelBranches(Operation):
    """Branches, each a list of operations, of one common input field or of one field each; `joined`: into one field.

    Sums: K = Σ K_i + Σ_{i≠j} m_i m_j', Θ = Σ Θ_i. With `shares` w_i, concatenated channels: K = Σ w_i K_i, Θ = Σ w_i
    Θ_i. Without branches the input fields are joined; fields that are not joined continue in parallel, up to the next
    join. A branch without operations is the field itself, so that a residual block is the sum of () and another.
    """

    is_branching: ClassVar[bool] = True
    branches: tuple[tuple[Any, ...], ...]
    joined: bool = False
    shares: tuple[float, ...] | None = None

    @property
    def label(self) -> str:  # type: ignore[override]
        """Name of the operation in messages."""
        if self.is_closed:
            return type(self).__name__
        if self.is_open:
            return "parallel branches"
        return "sums" if self.shares is None else "concatenation"

    @property
    def held(self) -> tuple[tuple[Any, ...], ...]:  # type: ignore[override]
        """Operations on the incoming field, one list per branch."""
        return self.branches

    @property
    def is_open(self) -> bool:
        """Whether its branches' fields are not joined."""
        return not self.joined

    @property
    def is_closed(self) -> bool:
        """Whether it has one input field and one output field."""
        return self.joined and bool(self.branches)

    @property
    def is_structured(self) -> bool:  # type: ignore[override]
        """Whether only structured programs support it: it leaves parallel fields, or reads them."""
        return not self.is_closed

    @property
    def needs_variances(self) -> bool:  # type: ignore[override]
        """Whether it joins branches, which needs their means."""
        return self.is_closed

    @property
    def keeps_constants(self) -> bool:  # type: ignore[override]
        """Whether all operations of its branches keep constant fields constant."""
        return bool(self.branches) and all(op.keeps_constants for ops in self.branches for op in ops)

    @property
    def residual(self) -> tuple[Any, ...] | None:  # type: ignore[override]
        """The operations whose result is added to the field itself; None for other branches."""
        joins_input = self.is_closed and self.shares is None and len(self.branches) == 2 and not self.branches[0]
        return self.branches[1] if joins_input else None


def residual(ops: tuple[Any, ...]) -> ParallelBranches:
    """A residual block: the field plus ops(field)."""
    return ParallelBranches(((), ops), joined=True)


def flat(ops: Iterable[Any]) -> Iterator[Any]:
    """All operations, each followed by those inside its branches."""
    for op in ops:
        yield op
        for held in op.held:
            yield from flat(held)


def why_structured(ops: tuple[Any, ...]) -> str:
    """Why a structured program does not run by pair offset."""
    names = dict.fromkeys(op.label for op in flat(ops) if op.is_structured)
    held = ", ".join(names) or "masks"
    return f"it holds {held}"


def is_structured(ops: tuple[Any, ...]) -> bool:
    """Whether any operation needs a structured program."""
    return any(op.is_structured for op in flat(ops))


Op = Box | IndexTable | Affine | Dual | Decouple | Pool | WindowPool | Flattening | ParallelBranches | Standardise


@dataclass(frozen=True)
class GroupMoves:
    """Moves of positions by elements q of a lifted network's group: before the lift x → qx, after it g → qg.

    `folded` > 1: each position of the field represents that many elements of the group, with different rotations,
    because the fields do not depend on the rotation. The field then lives on the grid, and moves as the input does.
    """

    on_rotations: ClassVar[bool] = False  # all of them are among the positions
    points: FrozenArray  # int32 (|G|, positions of the input)
    elements: FrozenArray  # int32 (|G|, positions of the lifted field)
    folded: int = 1

    def program(self, shape: tuple[int, ...], ops: tuple[Op, ...]) -> Program[Positions]:
        """The program of lowered layers that lift to the group."""
        return Program(Positions(shape, self), ops)


@dataclass(frozen=True)
class Positions:
    """The space of fields over positions: a grid of `shape`, () for plain vectors; after a lift, a finite group."""

    shape: tuple[int, ...]
    lift: GroupMoves | None = None


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    S = TypeVarWithDefault("S", default=Positions)  # plain `Program` means one on positions
else:
    S = TypeVar("S")


@dataclass(frozen=True)
class Program(HashedOnce, Generic[S]):
    """Operations in order on fields over a space.

    The space determines the operations: `Positions`, or one of other modules: `StructuredPositions` (with masks
    and graphs), `Sphere`, `Points` and `EquivariantOutputs`.
    """

    space: S
    ops: tuple[Any, ...]

    __hash__ = HashedOnce.__hash__

    @property
    def shape(self: Program[Positions] | Program[Any]) -> tuple[int, ...]:
        """The program's grid of positions; () for plain vectors."""
        return self.space.shape

    @property
    def lift(self: Program[Positions]) -> GroupMoves | None:
        """Moves of positions by the group of a lifted network."""
        return self.space.lift


def field_program(shape: tuple[int, ...], ops: tuple[Op, ...], lift: GroupMoves | Any | None) -> Program[Any]:
    """The program of operations on a grid of positions, which may lift to a group or to rotations."""
    return Program(Positions(shape), _without_lone_windows(ops)) if lift is None else lift.program(shape, ops)


def _without_lone_windows(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Operations without windows of one position and stride 1, which change nothing whatever their padding."""
    lone = lambda op: isinstance(op, Box) and op.in_shape == op.out_shape and set(op.window) <= {1}
    return tuple(op.with_held(_without_lone_windows) for op in ops if not lone(op))


VERSION = 5  # of the numbers: raised whenever some kernel's change, whatever the version of the package


def described(thing: object) -> str:
    """Text that is equal for equal content only.

    >>> described((1, 0.5, None)), described(np.zeros(2)) == described(np.zeros(2, np.float32))
    ('(1,0x1.0000000000000p-1,None)', False)
    """
    if isinstance(thing, FrozenArray):
        return f"array:{thing.key}"
    if isinstance(thing, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
        return f"array:{thing.dtype.str}{thing.shape}{content}"
    if isinstance(thing, float):
        return thing.hex()
    if thing is None or isinstance(thing, bool | int | str):
        return repr(thing)
    if isinstance(thing, tuple):
        return f"({','.join(map(described, thing))})"
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = (f"{f.name}={described(getattr(thing, f.name))}" for f in dataclasses.fields(thing))
        return f"{type(thing).__module__}.{type(thing).__qualname__}({','.join(parts)})"
    raise InvalidTypeError(
        f"a kernel that depends on {thing!r} cannot be kept on disk: its content has no description; compute it "
        "without a store"
    )
