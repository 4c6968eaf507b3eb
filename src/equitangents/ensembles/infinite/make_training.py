"""The training of an ensemble from what `fit` was given: actions and targets checked against each other."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from equitangents.actions import Action, restrict
from equitangents.actions.group_action import GroupAction
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.fields.turning import TurningField
from equitangents.ensembles.infinite.field_source import FieldSource
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.training_problem import Training
from equitangents.ensembles.training.settings import check_actions
from equitangents.errors import ShapeError
from equitangents.kernels import KernelFunction
from equitangents.kernels.result import FieldFunction


def make_training(
    net: KernelFunction | FieldFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: Any,
    y: np.ndarray,
    positions: Positions | None,
    settings: Settings,
) -> Training:
    """Training on y (N, outputs), or of fields (N, *positions, outputs), with an axis |G| before of every copy's own.

    A subset of an action that is a subgroup becomes an action of its own.
    """
    x = x if positions is None else np.asarray(x)
    each_copy = y.ndim > (2 if positions is None else len(positions.shape) + 2)
    _check(each_copy, augmentation, label_action, x, y, positions)
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        whole = augmentation.action
        assert isinstance(whole, Action)
        subgroup = whole.group.subgroup(augmentation.elements)
        y = y[np.argsort(augmentation.elements)] if each_copy else y
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(whole, subgroup)
    if positions is None:
        return Training(cast(KernelFunction, net), augmentation, label_action, x, y, settings)
    field = TurningField(cast(KernelFunction, net)) if positions.turning else cast(FieldFunction, net)
    source = FieldSource(augmentation, label_action, x, y, FieldKernel(field), positions)
    action, labels = source.point_labels()
    return Training(source.kernel, action, None, source.points(x), labels, source.per_sample(settings), source)


def _check(
    each_copy: bool,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: Any,
    y: np.ndarray,
    positions: Positions | None,
) -> None:
    one, shape = ("a label", "") if positions is None else ("a field", "*positions, ")
    if each_copy and (augmentation is None or label_action is not None):
        raise ShapeError(
            f"y has shape {y.shape}: {one} for every augmented copy, (|G|, N, {shape}outputs), needs an augmentation "
            "and no label_action" + ("; else expected (N,) or (N, outputs)" if positions is None else "")
        )
    check_actions(augmentation, label_action, x, y[..., 0] if positions is not None and positions.turning else y)
    if not each_copy or augmentation is None:
        return
    copies = len(augmenting_elements(augmentation))
    if y.shape[:2] != (copies, len(x)):
        told = f"({copies}, {len(x)}, outputs)" if positions is None else f"{copies} of them first"
        raise ShapeError(f"y has shape {y.shape}; with {one} for every augmented copy expected {told}")
