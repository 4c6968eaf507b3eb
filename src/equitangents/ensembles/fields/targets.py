"""Targets on the positions of a network's output: their shape, where positions go, and how augmentation moves them.

(ρ_Y(g) y)(p): without a label action values stay as they are and go with their positions, (ρ_Y(g) y)(π_g p) = y(p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equitangents._types import AnyAction, AnyModel, ArrayLike, Element, Targets
from equitangents.actions.products import FieldAction
from equitangents.actions.subset import augmenting_elements, whole_action
from equitangents.ensembles.fields.kernel import equivariant_outputs
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError
from equitangents.groups.group import GroupMap
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.inference.augmented import augment_targets
from equitangents.kernels import KernelFunction
from equitangents.kernels.result import FieldFunction
from equitangents.nn import Sequential


@dataclass(frozen=True)
class Positions:
    """The positions that a network's output has, a grid of `shape`; or, if `turning`, outputs that turn, (d,)."""

    shape: tuple[int, ...]
    turning: bool = False

    @property
    def count(self) -> int:
        """P, how many there are."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return "×".join(map(str, self.shape)) + " positions"

    def checked(self, y: np.ndarray, samples: int) -> tuple[np.ndarray, bool]:
        """(targets (N, *positions, outputs), whether y came without the outputs' axis)."""
        if y.shape == (samples, *self.shape):
            return y[..., None], True
        if self.turning:
            raise ShapeError(
                "y", y.shape, (samples, self.count), "one row of the outputs, which transform with the input"
            )
        if y.ndim == len(self.shape) + 2 and y.shape[:-1] == (samples, *self.shape):
            return y, False
        raise ShapeError(
            "y",
            y.shape,
            (samples, *self.shape, "outputs"),
            "for one target a sample, end the network with Flatten, GlobalAvgPool or GroupPool, and Dense",
        )


def output_positions(net: KernelFunction | FieldFunction, x: ArrayLike, y: Targets) -> Positions | None:
    """The positions that a network ends on; None where it ends on one, and targets (N,) or (N, outputs) fit it.

    Of networks of one's own the shape of `kernel_field` says how many they are, and that of the targets y their grid.
    """
    targets = np.asarray(y).shape  # what only becomes an array, such as a data frame, may refuse NumPy's functions
    if (outputs := equivariant_outputs(net)) is not None:
        return Positions((outputs,), turning=True)
    if isinstance(net, Sequential):
        try:
            shape = net.output_shape(x.shape[1:])[:-1]
        except NetworkError:  # the inputs do not fit; what is checked next says why
            return None
        if math.prod(shape) > 1 or (shape and targets[1:-1] == shape):
            return Positions(shape)
        return None
    field = getattr(net, "kernel_field", None)
    if not callable(field) or len(targets) < 3:
        return None
    count = field(x[:1]).nngp.shape[1]
    grids = (targets[1:-1], targets[1:])  # with outputs, and without
    for grid in grids:
        if math.prod(grid) == count:
            return Positions(grid)
    raise ShapeError("y", targets, f"targets on {count} positions, those on which the network ends")


def moved_positions(augmentation: AnyAction, label_action: AnyAction, positions: Positions) -> np.ndarray:
    """π, (|G|, P): where each element takes positions of outputs; that of the label action, if it moves any.

    Actions that move no positions, or not exactly, leave them where they are.
    """
    whole: AnyAction = whole_action(augmentation)
    here = np.arange(positions.count)
    for action in () if positions.turning else (label_action, whole):
        moving = action.positions if isinstance(action, FieldAction) else action
        if moving is None or not moving.exact or not moving.permutes_positions:
            continue
        try:
            return np.asarray(moving.position_table((*positions.shape, 1)))
        except (ShapeError, InvalidArgumentError) as error:
            raise ShapeError(
                "augmentation",
                whole,
                "one that moves the positions on which the network ends",
                f"give a label_action of the same group that does: {error}",
            ) from None
    return np.tile(here, (whole.group.order, 1)) if whole.group.elements is not None else here[None]


def moved_targets(augmentation: AnyAction, label_action: AnyAction, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g) y for the augmentation's elements, (|G|, *y.shape), y (N, *positions, outputs)."""
    elements = augmenting_elements(augmentation)
    action = value_keeping(whole_action(augmentation)) if label_action is None else label_action
    return augment_targets(action, y, elements).reshape(len(elements), *y.shape)


def value_keeping(action: AnyAction) -> AnyAction:
    """The action on fields of values that stay as they are and go with their positions; None where no position goes."""
    moving = action.positions if isinstance(action, FieldAction) else action
    return moving if moving.permutes_positions or moving.channels_last else None


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

    action: GroupMap
    shape: tuple[int, ...]

    @property
    def group(self) -> SymmetryGroup:
        """The group that acts."""
        return self.action.group

    def __call__(self, g: Element, y: np.ndarray) -> np.ndarray:
        """ρ(g) y, in rows."""
        return np.asarray(self.action(g, y.reshape(len(y), *self.shape))).reshape(y.shape)


def field_rows(ensemble: AnyModel) -> FieldRows | None:
    """How a fitted ensemble's outputs lie in rows, if they are fields; else None."""
    grid = tuple(getattr(ensemble, "positions_", ()))
    return FieldRows(grid, int(ensemble.n_outputs_)) if grid else None
