"""Fields over all pairs of positions as numbered places in memory, and steps on them, as the CPU engine runs them.

Steps are written as three arrays of numbers (`native/src/joint.cpp` reads them): code, reals, and tables of indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from equitangents.kernels.engines.codes import JOINED_SIDES, JOINT_SIDES, STEPS_VERSION, JointKind, Mixing
from equitangents.kernels.engines.cpu.descriptor import Description, Numbers
from equitangents.kernels.operation import FrozenArray


@dataclass
class Field:
    """Where a field is kept; `mask` is the number of its mask, -1 for none.

    `stale`: what it holds at missing positions is not zero and has to be cleared before positions are added up.
    """

    number: int
    positions: int
    mask: int = -1
    stale: bool = False


class Registers(Numbers):
    """Steps so far, and which places hold a field."""

    def __init__(self, masks: list[int]) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.count = 0
        self.last = -1  # the field that the last step left
        self.masks = masks  # positions of each
        self.fields = 0
        self.widest = 0
        self.sides = 0  # numbers that the steps need of each input alone
        self.changes_units = False
        self._free: list[int] = []

    def take(self, positions: int, mask: int = -1) -> Field:
        """A place for another field."""
        self.widest = max(self.widest, positions)
        if self._free:
            return Field(self._free.pop(), positions, mask)
        self.fields += 1
        return Field(self.fields - 1, positions, mask)

    def give_back(self, field: Field) -> None:
        """Release a place in memory."""
        self._free.append(field.number)

    def step(
        self,
        kind: JointKind,
        to: Field,
        source: Field | None = None,
        *,
        after: int | None = None,
        masks: tuple[int, int] | None = None,
        sides: int | None = None,
        **more: Any,
    ) -> None:
        """One step from the field `source` (None: in place) to `to`, with what else it needs (see `_step`).

        `sides`: numbers that it needs of each input alone, where the kind of step does not say it.
        """
        source = to if source is None else source
        before = source.positions
        masks = (to.mask, to.mask) if masks is None else masks
        self._step(kind, source.number, to.number, before, before if after is None else after, masks, **more)
        joined = JOINED_SIDES if self.changes_units and kind == JointKind.COMBINE else 0
        self.sides += (JOINT_SIDES.get(kind, 0) + joined) * before if sides is None else sides
        self.last = to.number

    def _step(
        self,
        kind: JointKind,
        source: int,
        to: int,
        before: int,
        after: int,
        masks: tuple[int, int],
        *,
        index: int = 0,
        weights: int = 0,
        size: int = 0,
        mixing: Mixing = Mixing.GIVEN,
        total: bool = False,
        dual: int = 0,
        numbers: tuple[float, ...] = (),
    ) -> None:
        """From one field or mask to another, by their numbers, of so many positions before and after."""
        four = self.real((*numbers, *[0.0] * (4 - len(numbers))))
        code = [kind, source, to, before, after, index, weights, size, mixing, int(total), dual, four, *masks]
        self.steps += map(int, code)
        self.count += 1
        self.sides += self.changes_units  # a unit, at most

    def mask(self, kind: JointKind, source: int, table: npt.ArrayLike, positions: int) -> int:
        """The number of a new mask of so many positions, made of another by a table."""
        self.masks.append(positions)
        number = len(self.masks) - 1
        self._step(kind, source, number, self.masks[source], positions, (-1, -1), index=self.indices(table))
        return number

    def indices(self, values: npt.ArrayLike) -> int:
        """Where a table of indices begins."""
        return self.table(FrozenArray(np.asarray(values, np.int32).ravel()))

    def description(self, channels: int, positions: int, graphs: bool) -> Description:
        """All of it as arrays."""
        head = [STEPS_VERSION, channels, positions, self.fields, self.count, len(self.masks), int(graphs)]
        head += [int(self.changes_units), *self.masks]
        self.real(0.0)  # there is at least one number, and one table
        self.indices(np.zeros(1))
        return self.described(head + self.steps)
