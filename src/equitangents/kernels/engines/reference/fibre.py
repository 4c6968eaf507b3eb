"""One fibre: the pairs (p, p') that a single offset, or a single group element, joins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels.angular import Both, both
from equitangents.kernels.engines.reference.execute import Moments, State, uncoupled
from equitangents.kernels.engines.reference.windows import (
    box_mean,
    box_mean_of_angles,
    box_variances,
    pad_grid,
    table_mean,
    table_mean_of_angles,
)
from equitangents.kernels.operations import Box, Flatten, Pool, Table, WindowPool
from equitangents.kernels.plans.levels import GridLevel, Level, Levels


def grid_partners(level: GridLevel, label: Any, low: tuple[int, ...], high: tuple[int, ...]) -> tuple[Any, Any]:
    """(flat index of p + step·q, whether it lies on the grid), for p in the grid enlarged by `low` and `high`.

    On a torus the index wraps, but a position outside is still said to be outside.
    """
    d = len(level.shape)
    xp: Any = np if isinstance(label, np.ndarray) else jnp  # what is known is no part of the compiled program
    index = xp.zeros((1,) * d, np.int32)
    valid = xp.ones((1,) * d, bool)
    for i, n in enumerate(level.shape):
        p = xp.arange(-low[i], n + high[i], dtype=np.int32) + label[i] * level.step[i]
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
    _partners: dict[Level, tuple[Any, Any]] = field(default_factory=dict)

    def inner(self, i: int, branch: int) -> FibreGeometry:
        """This fibre inside one of the branches at operation i."""
        held = self.levels.branches[i]
        assert held is not None
        levels = held.branches[branch]
        assert levels is not None
        return FibreGeometry(levels, self.label, self.tables)

    def partners(self, level: Level) -> tuple[Any, Any]:
        """(index of the second position, whether there is one) for every first position."""
        if level not in self._partners:
            self._partners[level] = self._find_partners(level)
        return self._partners[level]

    def _find_partners(self, level: Level) -> tuple[Any, Any]:
        if level.on_grid:
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
        """Values at p'; out-of-range entries are arbitrary and masked later."""
        level = self.levels.levels[i]
        if level.on_grid and isinstance(self.label, np.ndarray) and not self.label.any():
            return values
        return values[self.partners(level)[0]]

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Windowed mean; where only one of the two reads falls outside, K = Θ = 0."""
        axes = tuple((j,) for j in range(len(op.in_shape)))
        grid = lambda x: x.reshape(op.in_shape + x.shape[1:])
        padded = state.map(lambda x: pad_grid(grid(x), op, axes))
        first, second = pad_grid(grid(q1), op, axes), pad_grid(grid(self.second(i, q2)), op, axes)
        if not op.wrap and (any(op.low) or any(op.high)):
            second, beyond = self._outside(i, op, q2)
            padded = uncoupled(padded, beyond, both(first, second))
        at = both(first, second)
        variances = box_variances(at, op, axes)
        means = padded.angles(lambda e: box_mean_of_angles(e, variances, op, axes))
        means = means._replace(theta=box_mean(padded.theta, op, axes))
        means = means.map(lambda x: x.reshape((-1, *x.shape[len(axes) :])))
        if op.wrap:
            return means
        # Pairs without a second position are kept at zero, so that nothing overflows before they are left out.
        valid = self.partners(self.levels.levels[i + 1])[1].reshape((-1,) + (1,) * (means.theta.ndim - 1))
        return means.map(lambda x: jnp.where(valid, x, 0))

    def _outside(self, i: int, op: Box, q2: ArrayLike) -> tuple[Any, Any]:
        """(Variances of the second reads of the enlarged grid, 0 outside; where a read is outside)."""
        level = self.levels.levels[i].grid
        index, valid2 = grid_partners(level, self.label, op.low, op.high)
        valid1 = np.pad(np.ones(op.in_shape, bool), list(zip(op.low, op.high, strict=True)))
        shape = valid1.shape
        wide = shape + (1,) * (q2.ndim - 1)
        valid2 = jnp.broadcast_to(valid2, shape).reshape(wide)
        second = jnp.where(valid2, q2[jnp.broadcast_to(index, shape)], 0)
        return second, ~(valid1.reshape(wide) & valid2)

    def table(self, op: Table, state: State, before: Both, after: Both) -> State:
        """Windowed mean along right translations, which keep the fibre."""
        means = state.angles(lambda e: table_mean_of_angles(e, before, after, op, self.tables))
        return means._replace(theta=table_mean(state.theta, op, self.tables))

    def pool(self, i: int, op: Pool | WindowPool | Flatten, state: State, m1: Moments, m2: Moments) -> State:
        """Never called: pooling before a later layer mixes fibres, and plans then use all pairs."""
        raise AssertionError(f"{op} mixes fibres")

    def decouple(self, i: int, state: State, at: Both) -> State:
        """Only the diagonal fibre joins equal positions."""
        return uncoupled(state, ~jnp.all(self.label == 0), at)
