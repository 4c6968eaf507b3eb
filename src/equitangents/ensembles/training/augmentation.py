"""Training data of an augmented ensemble: all pairs (ρ_X(g) x_i, ρ_Y(g) y_i), g running slowest.

full    the data set is replaced by all N|G| pairs
random  every epoch visits each sample once, moved by a random element: copy g of sample i is row g·N + i
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions.group_action import GroupAction
from equitangents.actions.subset import Augmentation, augmenting_elements
from equitangents.ensembles.fields.targets import moved_targets
from equitangents.inference import augment_inputs, augment_targets


@dataclass(frozen=True)
class Augmented:
    """Data x (rows, …), y (rows, outputs); an epoch visits `samples`, each drawn from `copies` rows."""

    x: np.ndarray
    y: np.ndarray
    samples: int
    copies: int


def augment(
    action: Augmentation | None, label_action: GroupAction | None, mode: str, x: ArrayLike, y: np.ndarray, dtype: str
) -> Augmented:
    """The data that are trained on, in `dtype`; `action` None leaves them as they are.

    Targets may be fields, (N, *positions, outputs), which go with their positions, and end in one row each.

    The copies are made once, before training; images that are resampled cost no more later than exact ones.
    """
    if action is None:
        return Augmented(np.asarray(x, dtype), np.asarray(y.reshape(len(y), -1), dtype), len(x), 1)
    elements = augmenting_elements(action)
    moved = np.asarray(augment_inputs(action, x), dtype)
    if y.ndim > 2:
        targets = np.asarray(moved_targets(action, label_action, y).reshape(len(moved), -1), dtype)
    else:
        targets = np.asarray(augment_targets(label_action, y, elements), dtype)
    if mode == "full":
        return Augmented(moved, targets, len(moved), 1)
    return Augmented(moved, targets, len(x), len(elements))
