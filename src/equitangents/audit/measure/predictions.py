"""What outputs mean for a task: classes, probabilities and labels, and the violation in units of the task's error."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.sections import RelativeSection
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.metrics.measure import norms

_UNKNOWN = int(np.iinfo(np.int64).min)
"""In place of a label that no column of f(x) stands for."""


def output_kind(orbits: Orbits, stated: str) -> Literal["values", "logits", "probabilities"]:
    """What the first output is: as stated, else probabilities if every row is a distribution, else values."""
    if stated == "logits":
        return "logits"
    if stated == "probabilities" and not orbits.probabilities:
        raise InvalidArgumentError(
            "outputs is 'probabilities', but the rows of f(x) are not distributions: non-negative and of sum 1"
        )
    return "probabilities" if stated == "probabilities" or (stated == "auto" and orbits.probabilities) else "values"


def same_predictions(task: AuditTask, orbits: Orbits) -> Estimate | None:
    """Share of the elements but the identity that keep the predicted class, with its interval; None without classes."""
    same = orbits.same_class
    return None if same is None else task.resampler(len(orbits.kept)).mean(same.mean(axis=0), bounds=(0.0, 1.0))


def check_labels(y: Any, n: int, classes: np.ndarray | None = None) -> np.ndarray | None:
    """Labels as an array: whole numbers (N,) are classes, real numbers (N, …) the values that f should return.

    Where the columns of f(x) belong to named `classes`, labels become column numbers, `_UNKNOWN` those without one.
    """
    if y is None:
        return None
    y = np.asarray(y)
    if y.ndim < 1 or len(y) != n:
        raise ShapeError("y", y.shape, (n, ...), "one row an input")
    if classes is not None and y.ndim == 1:
        same = y[:, None] == classes
        if not same.any():
            known = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
            raise InvalidArgumentError("y", y[0], "labels of the model's classes, " + known, verb="holds")
        return np.where(same.any(axis=1), same.argmax(axis=1), _UNKNOWN)
    if y.dtype.kind not in "fiub":
        hint = (
            ""
            if y.dtype.kind not in "US"
            else ("; classes by name are for models that know the names, of scikit-learn; number them, or leave y out")
        )
        raise InvalidTypeError(f"y has dtype {y.dtype}; expected class numbers, or real numbers like f(x){hint}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
        raise NotFiniteError("y", where, remedy="leave such inputs out")
    return y


def is_classes(y: np.ndarray) -> bool:
    """Whether labels are class numbers."""
    return y.dtype.kind in "iub" and y.ndim == 1


def misfit(orbits: Orbits, y: np.ndarray | None) -> str:
    """Why these labels are none of what f returns; "" where they may be."""
    if y is None:
        return ""
    width = math.prod(orbits.output_shapes[0])
    if not is_classes(y):
        own = math.prod(y.shape[1:])
        return "" if own == width else f"y has {own} numbers an input, f(x) has {width}"
    beyond = y[((y < 0) & (y != _UNKNOWN)) | (y >= width)]
    if width < 2 or 0 in orbits.columns or not len(beyond):
        return ""
    return f"y names class {beyond.max()}; f(x) has {width} columns, those of the classes 0 to {width - 1}"


def task_error(flat: np.ndarray, orbits: Orbits, y: np.ndarray | None) -> tuple[float | None, str | None]:
    """(error, its name) of predictions (K, D) for the kept rows: an error rate, or a root mean square error."""
    if y is None:
        return None, None
    truth, width = y[orbits.kept], math.prod(orbits.output_shapes[0])
    if is_classes(truth):
        if width < 2:
            return None, None
        column = flat[:, :width].argmax(axis=1)
        if 0 in orbits.columns:  # a class that was never predicted has no column, and is an error
            return float((orbits.columns[0][column] != truth).mean()), "error rate"
        return float((column != truth).mean()), "error rate"
    truth = truth.reshape(len(truth), -1)
    return float(np.sqrt(((flat[:, :width] - truth) ** 2).sum(axis=1).mean())), "root mean square error"


def relative_section(m: Measured) -> RelativeSection:
    """All of them; the task's error on transformed inputs is that of the pulled back signal."""
    orbits = m.orbits
    rms = lambda a: float(np.sqrt(np.mean(a**2)))
    (error, name), *moved = (task_error(signal, orbits, m.y) for signal in orbits.signals)
    transformed = None
    if error is not None:
        each = np.array([e or 0.0 for e, _ in moved])
        transformed = float(each.mean()) if name == "error rate" else rms(each)
    return RelativeSection(
        rms_norm=rms(norms(orbits.separate_sizes.T)),
        rms_violation=rms(norms(np.moveaxis(orbits.separate, 0, -1).reshape(-1, len(orbits.separate)))),
        task=name,
        task_error=error,
        transformed_task_error=transformed,
        error_by_spread=m.judgement.by_spread,
        floor_by_spread=m.judgement.spread_floor,
    )
