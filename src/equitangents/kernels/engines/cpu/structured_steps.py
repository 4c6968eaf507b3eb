"""Fields over all pairs of positions as numbered places in memory, and steps on them, as the CPU engine runs them.

Steps are written as three arrays of numbers (`native/src/joint.cpp` reads them): code, reals, and tables of indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.kernels.engines.codes import JOINED_SIDES, JOINT_SIDES, STEPS_VERSION, JointKind, Mixing
from equitangents.kernels.engines.cpu.descriptor import Description


@dataclass
class Field:
    """Where a field is kept; `mask` is the number of its mask, -1 for none.

    `stale`: what it holds at missing positions is not zero and has to be cleared before positions are added up.
    """

    number: int
    positions: int
    mask: int = -1
    stale: bool = False


class Registers:
    """Steps so far, and which places hold a field."""

    def __init__(self, masks: list[int]) -> None:
        self.steps: list[int] = []
        self.count = 0
        self.last = -1  # the field that the last step left
        self.masks = masks  # positions of each
        self.fields = 0
        self.widest = 0
        self.sides = 0  # numbers that the steps need of each input alone
        self.changes_units = False
        self._free: list[int] = []
        self._reals: list[np.ndarray] = []
        self._tables: list[np.ndarray] = []
        self._at = [0, 0]
        self._tables_at: dict[bytes, int] = {}

    def take(self, positions: int, mask: int = -1) -> Field:
        """A place for another field."""
        self.widest = max(self.widest, positions)
        if self._free:
            return Field(self._free.pop(), positions, mask)
        self.fields += 1
        return Field(self.fields - 1, positions, mask)

    def give_back(self, field: Field) -> None:
        """What the place holds is not needed any more."""
        self._free.append(field.number)

    def step(
        self,
        kind: JointKind,
        to: Field | int,
        source: Field | int | None = None,
        *,
        after: int | None = None,
        index: int = 0,
        weights: int = 0,
        size: int = 0,
        mixing: Mixing = Mixing.GIVEN,
        total: bool = False,
        dual: int = 0,
        numbers: tuple[float, ...] = (),
        masks: tuple[int, int] | None = None,
        sides: int | None = None,
    ) -> None:
        """One step from `source` (None: in place) to `to`, both of them fields, or numbers of masks.

        `sides`: numbers that it needs of each input alone, where the kind of step does not say it.
        """
        source = to if source is None else source
        number, origin = (f.number if isinstance(f, Field) else f for f in (to, source))
        before = source.positions if isinstance(source, Field) else self.masks[source]
        held = to.mask if isinstance(to, Field) else -1
        masks = (held, held) if masks is None else masks
        four = self.real((*numbers, *[0.0] * (4 - len(numbers))))
        code = [kind, origin, number, before, before if after is None else after]
        code += [index, weights, size, mixing, int(total), dual, four, *masks]
        self.steps += map(int, code)
        self.count += 1
        more = JOINED_SIDES if self.changes_units and kind == JointKind.COMBINE else 0
        self.sides += (JOINT_SIDES.get(kind, 0) + more) * before if sides is None else sides
        self.sides += self.changes_units  # a unit, at most
        if isinstance(to, Field):
            self.last = to.number

    def mask(self, positions: int) -> int:
        """The number of a new mask."""
        self.masks.append(positions)
        return len(self.masks) - 1

    def real(self, values: Any) -> int:
        """Where these numbers begin."""
        array = np.asarray(values, np.float64).ravel()
        self._reals.append(array)
        self._at[0] += array.size
        return self._at[0] - array.size

    def table(self, values: Any) -> int:
        """Where a table begins; equal ones are kept once."""
        array = np.ascontiguousarray(values, np.int32).ravel()
        key = array.tobytes()
        if key not in self._tables_at:
            self._tables_at[key] = self._at[1]
            self._tables.append(array)
            self._at[1] += array.size
        return self._tables_at[key]

    def description(self, channels: int, positions: int, graphs: bool) -> Description:
        """All of it as arrays."""
        head = [STEPS_VERSION, channels, positions, self.fields, self.count, len(self.masks), int(graphs)]
        head += [int(self.changes_units), *self.masks]
        reals = np.concatenate([*self._reals, np.zeros(1)]).view(np.int32)
        tables = np.concatenate([*self._tables, np.zeros(1, np.int32)])
        return Description(np.array(head + self.steps, np.int32), reals, tables)
