"""The field program: what a network does to kernels, as data that engines execute.

A program is a list of operations on the squared distance D(p,p') = q1(p) + q2(p') - 2 K(p,p'), the tangent kernel
Θ(p,p') and the variances q1, q2 of the two inputs, over pairs of positions (p, p'). Layers lower to it and know no
engine; engines execute it and know no layer. The operations are in `operations.py` and `branches.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from equitangents.kernels.branches import Parallel, flat
from equitangents.kernels.operation import FrozenArray, HashedOnce
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Pool,
    Standardise,
    Table,
    WindowPool,
)

Op = Box | Table | Affine | Dual | Decouple | Pool | WindowPool | Flatten | Parallel | Standardise


@dataclass(frozen=True)
class GroupFibres:
    """Moves of positions by elements q of a lifted network's group: before the lift x → qx, after it g → qg.

    `folded` > 1: each position of the field stands for that many elements of the group (those that differ in their
    rotation), because the fields do not depend on the rotation. The field then lives on the grid, moved as the input.
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

    The space says which operations there are: `Positions`, or one of the subpackages: `StructuredPositions` (with masks
    and graphs), `Sphere`, `Points` and `EquivariantOutputs`.
    """

    space: S
    ops: tuple[Any, ...]

    __hash__ = HashedOnce.__hash__

    @property
    def shape(self: Program[Positions] | Program[Any]) -> tuple[int, ...]:
        """The grid of positions of a program on one, () for plain vectors."""
        return self.space.shape

    @property
    def lift(self: Program[Positions]) -> GroupFibres | None:
        """Moves of positions by the group of a lifted network."""
        return self.space.lift


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    """Every table of the program, by key: engines take them as run-time arguments rather than as constants."""
    found = {key: table for op in flat(program.ops) for key, table in op.tables.items()}
    lift = program.lift
    if lift is not None:
        found[lift.points.key] = lift.points.array
        found[lift.elements.key] = lift.elements.array
    return found
