"""One fibre: the pairs (p, p') that a single offset, or a single group element, joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.execute import State
from equitangents.kernels.engines.reference.moments import Moments
from equitangents.kernels.engines.reference.windows import box_mean, pad_grid, table_mean
from equitangents.kernels.plans.levels import GridLevel, Level, Levels
from equitangents.kernels.program import Box, Flatten, Pool, Table, WindowPool


def grid_partners(level: GridLevel, label: Any, low: tuple[int, ...], high: tuple[int, ...]) -> tuple[Any, Any]:
    """(flat index of p + step·q, whether it lies on the grid), for p in the grid enlarged by `low` and `high`.

    On a torus the index wraps, but a position outside is still said to be outside.
    """
    d = len(level.shape)
    index: Any = jnp.zeros((1,) * d, jnp.int32)
    valid: Any = jnp.ones((1,) * d, bool)
    for i, n in enumerate(level.shape):
        p = jnp.arange(-low[i], n + high[i], dtype=jnp.int32) + label[i] * level.step[i]
        wide = (1,) * i + (-1,) + (1,) * (d - i - 1)
        inside = (p >= 0) & (p < n)
        index = index * n + (p % n).reshape(wide)
        valid = valid & inside.reshape(wide)
    return index, valid


@dataclass
class FibreGeometry:
    """The fibre `label` of a program with the given levels; batch axes are already aligned."""

    levels: Levels
    label: Any
    tables: dict[str, Any]
    carry: Carry = DISTANCE

    def inner(self, i: int, branch: int) -> FibreGeometry:
        """This fibre inside one of the branches at operation i."""
        held = self.levels.branches[i]
        assert held is not None
        levels = held.branches[branch]
        assert levels is not None
        return FibreGeometry(levels, self.label, self.tables, self.carry)

    def partners(self, level: Level) -> tuple[Any, Any]:
        """(index of the second position, whether there is one) for every first position."""
        if isinstance(level, GridLevel):
            zero = (0,) * len(level.shape)
            index, valid = grid_partners(level, self.label, zero, zero)
            if level.wrap:
                valid = jnp.ones_like(valid)
            shape = level.shape
            return jnp.broadcast_to(index, shape).reshape(-1), jnp.broadcast_to(valid, shape).reshape(-1)
        row = self.tables[level.table.key][self.label]
        return row, jnp.ones(row.shape, bool)

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """The first position of each pair is p itself."""
        return values

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at p'; where there is none, those of some position: such pairs never reach a result."""
        return values[self.partners(self.levels.levels[i])[0]]

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Windowed mean; where only one of the two reads falls outside, K = 0 and D is the other's variance."""
        axes = tuple((j,) for j in range(len(op.in_shape)))
        padded = state.map(lambda x: pad_grid(x.reshape(op.in_shape + x.shape[1:]), op, axes))
        if not op.wrap and (any(op.low) or any(op.high)):
            padded = self._outside(i, op, padded, q1, q2, axes)
        means = padded.map(lambda x: box_mean(x, op, axes).reshape((-1, *x.shape[len(axes) :])))
        if op.wrap:
            return means
        # Pairs without a second position are kept at zero, so that nothing overflows before they are left out.
        valid = self.partners(self.levels.levels[i + 1])[1].reshape((-1,) + (1,) * (means.theta.ndim - 1))
        return means.map(lambda x: jnp.where(valid, x, 0))

    def _outside(self, i: int, op: Box, padded: State, q1: ArrayLike, q2: ArrayLike, axes: Any) -> State:
        level = self.levels.levels[i]
        assert isinstance(level, GridLevel)
        index, valid2 = grid_partners(level, self.label, op.low, op.high)
        valid1 = np.pad(np.ones(op.in_shape, bool), list(zip(op.low, op.high, strict=True)))
        shape = valid1.shape
        wide = shape + (1,) * (padded.theta.ndim - len(shape))
        valid2 = jnp.broadcast_to(valid2, shape).reshape(wide)
        first = pad_grid(q1.reshape(op.in_shape + q1.shape[1:]), op, axes)
        second = jnp.where(valid2, q2[jnp.broadcast_to(index, shape)], 0)
        both = valid1.reshape(wide) & valid2
        alone = self.carry.unrelated(first, second)
        return State(jax.tree.map(lambda d: jnp.where(both, d, alone), padded.d), jnp.where(both, padded.theta, 0))

    def table(self, i: int, op: Table, state: State) -> State:
        """Windowed mean along right translations, which keep the fibre."""
        return state.map(lambda x: table_mean(x, op, self.tables))

    def pool(self, i: int, op: Pool | WindowPool | Flatten, state: State, m1: Moments, m2: Moments) -> State:
        """Never asked for: pooling before a later layer mixes fibres, and plans then use all pairs."""
        raise AssertionError(f"{op} mixes fibres")

    def decouple(self, i: int, state: State, q1: ArrayLike, q2: ArrayLike) -> State:
        """Only the diagonal fibre joins equal positions."""
        same = jnp.all(self.label == 0)
        alone = self.carry.unrelated(q1, q2)
        return State(jax.tree.map(lambda d: jnp.where(same, d, alone), state.d), jnp.where(same, state.theta, 0))
