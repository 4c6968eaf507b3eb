"""Fields in one row: what measures and plans, which know rows of outputs, need to know of outputs on positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import Element
from equitangents.groups.group_maps import GroupMap


@dataclass(frozen=True, eq=False)
class FieldRows:
    """Outputs on the positions `grid`, `outputs` at each, all numbers in one row, position by position."""

    grid: tuple[int, ...]
    outputs: int

    def acting(self, output_action: GroupMap | None) -> RowAction | None:
        """An action on fields (N, *grid, outputs) as one on rows; None stays None."""
        return None if output_action is None else RowAction(output_action, (*self.grid, self.outputs))


@dataclass(frozen=True, eq=False)
class RowAction:
    """An action on arrays (N, *shape) that is given rows (N, prod(shape))."""

    action: Any
    shape: tuple[int, ...]

    @property
    def group(self) -> Any:
        """The group that acts."""
        return self.action.group

    def __call__(self, g: Element, y: np.ndarray) -> np.ndarray:
        """ρ(g) y, in rows."""
        return np.asarray(self.action(g, y.reshape(len(y), *self.shape))).reshape(y.shape)


def field_rows(ensemble: Any) -> FieldRows | None:
    """How a fitted ensemble's outputs lie in rows, if they are fields; else None."""
    grid = tuple(getattr(ensemble, "positions_", ()))
    return FieldRows(grid, int(ensemble.n_outputs_)) if grid else None
