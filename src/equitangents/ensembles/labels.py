"""Labels that classifiers take: one for every sample, or a field of them, one at every position of an output."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from equitangents._types import Targets
from equitangents.ensembles.fields.targets import Positions
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.validation import check_same_length, check_unmasked

_LABELS = "biufUSO"  # kinds of arrays


def check_labels(y: Targets, copies: int | None = None) -> np.ndarray:
    """y as a 1-d array of discrete labels; a column (N, 1) is flattened with a warning, as scikit-learn does.

    With `copies`, the number N of samples, it may also hold a row of N labels for each element of a group.
    """
    check_given(y)
    y = np.asarray(y)
    if copies is not None and y.ndim == 2 and y.shape[1] == copies:
        return check_labels(y.ravel()).reshape(y.shape)
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: y has shape (N, 1), expected (N,)",
            DataConversionWarning,
            stacklevel=3,
        )
        y = y[:, 0]
    if y.ndim != 1 or y.size == 0:
        raise ShapeError("y", y.shape, "labels of shape (N,)")
    if y.dtype.kind not in _LABELS:
        raise InvalidTypeError(
            "y",
            y.dtype,
            "labels that are whole numbers, text or truth values",
            "give y.astype(str), say",
            verb="holds",
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NotFiniteError("y holds NaN or infinite values; labels must be known")
    try:
        check_classification_targets(y)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError("y", "no class labels", "class labels", str(error), verb="holds") from None
    return y


def check_given(y: Targets) -> None:
    """Raise InvalidArgumentError where there are no labels, or masked ones."""
    if y is None:
        raise InvalidArgumentError(
            "this classifier requires y to be passed, but the target y is None; expected labels (N,)"
        )
    check_unmasked("y", y)


def check_label_fields(y: Targets, samples: int, positions: Positions, *, copies: bool = False) -> np.ndarray:
    """Labels (N, *positions) of any type; (N, *positions, 1) loses its last axis with a warning.

    With `copies` they may also be (|G|, N, *positions), a field for each element of a group.
    """
    check_unmasked("y", y)
    y = np.asarray(y)
    whole = (samples, *positions.shape)
    if y.shape == (*whole, 1):
        warnings.warn(
            f"y has shape {y.shape}: its last axis was dropped, expected {whole}", DataConversionWarning, stacklevel=4
        )
        y = y[..., 0]
    if y.shape != whole and not (copies and y.shape[1:] == whole):
        raise ShapeError(
            "y",
            y.shape,
            remedy=f"the network ends on {positions}, so for {samples} samples expected labels {whole}. For one "
            "label a sample, end the network with Flatten, GlobalAvgPool or GroupPool, and a Dense layer",
        )
    return check_labels(y.ravel()).reshape(y.shape)


def labels_of(
    x: np.ndarray,
    y: Targets,
    ends_on: Callable[[np.ndarray, np.ndarray], Positions | None],
    *,
    copies: bool = False,
    name: str = "X",
) -> tuple[np.ndarray, Positions | None]:
    """(labels of samples x, the positions that they are at): (N,), or fields of them where networks end on positions.

    `ends_on(x, targets)` says which those are. With `copies` labels may have an axis more in front, of the elements of
    a group. Errors call the samples `name`.
    """
    check_given(y)
    y = np.asarray(y)
    positions = ends_on(x, y if y.ndim < 2 or y.shape[-1] == 1 else y[..., None])
    if positions is not None:
        return check_label_fields(y, len(x), positions, copies=copies), positions
    labels = check_labels(y, copies=len(x) if copies else None)
    if labels.ndim == 1:
        check_same_length(name, x, "y", labels)
    return labels, None


def classes_of(labels: np.ndarray) -> np.ndarray:
    """The distinct labels, sorted; two at least."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise InvalidArgumentError(
            f"y holds one class, {classes.tolist()[0]!r}; a classifier needs more than 1 class to tell apart"
        )
    return classes


def indices_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Which class each label is; raises InvalidArgumentError for labels beyond those of fit."""
    index = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    if (classes[index] != labels).any():
        raise InvalidArgumentError("y", labels.tolist(), "the labels of fit", str(classes.tolist()), verb="holds")
    return index


def centred_one_hot(index: np.ndarray, classes: int) -> np.ndarray:
    """Targets (N, K): 1 − 1/K for the sample's class, −1/K for the others.

    >>> import numpy as np
    >>> centred_one_hot(np.array([0, 1]), 2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.eye(classes)[index] - 1 / classes
