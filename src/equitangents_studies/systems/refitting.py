"""Models that are trained anew for every training set: fresh copies, and what their predictions say of classes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, clone

from equitangents.errors import InvalidTypeError, ShapeError
from equitangents_studies.systems.curve_data import CurveData

_SEEDS = ("seed", "random_state")


def fresh(model: Any, seed: int) -> Any:
    """An untrained copy of `model`, with another seed where it has one; a function is called with the seed."""
    if not hasattr(model, "fit"):
        if callable(model):
            return fresh_made(model(seed))
        raise InvalidTypeError(
            f"model is {model!r}; expected a network with `kernel`, an object with `fit` and `predict`, or a function "
            "of a seed that makes one"
        )
    if hasattr(model, "with_seed"):
        return model.with_seed(seed)
    if hasattr(model, "get_params"):
        copied = clone(model)
        named = [name for name in _SEEDS if name in copied.get_params()]
        return copied.set_params(**dict.fromkeys(named, seed))
    return copy.deepcopy(model)


def fresh_made(made: Any) -> Any:
    """What a function of a seed made, if it can be trained."""
    if not hasattr(made, "fit"):
        raise InvalidTypeError(f"model made {made!r}, which has no `fit`")
    return made


def errors_of(model: Any, data: CurveData, train: np.ndarray, test: np.ndarray, seed: int) -> tuple[float, float]:
    """(share of test inputs in another class, mean squared error) after training on the rows `train`; NaN for none.

    Regressors are trained on targets, one-hot minus 1/K for classes; classifiers on the labels, and have no squared
    error, as their outputs may be anything that grows with the class.
    """
    learner = fresh(model, seed)
    regresses = data.classes is None or isinstance(learner, RegressorMixin)
    y = data.labels if data.classes is None else data.targets if regresses else data.labels
    fitted = learner.fit(data.x[train], y[train])
    fitted = fitted if hasattr(fitted, "predict") else learner
    outputs = np.asarray(fitted.predict(data.x[test]))
    if len(outputs) != len(test):
        raise ShapeError(f"model predicts {len(outputs)} rows for {len(test)} inputs; expected one each")
    if not regresses:
        return float(np.mean(_classes(fitted, data, outputs, data.labels[test]) != data.labels[test])), np.nan
    outputs = outputs.reshape(len(outputs), -1).astype(np.float64)
    if outputs.shape[1] != data.targets.shape[1]:
        raise ShapeError(f"model predicts {outputs.shape[1]} outputs; the targets have {data.targets.shape[1]}")
    return both_errors(data, test, outputs)


def both_errors(data: CurveData, test: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """(share of test inputs in another class, mean of |f(x) − y|²); outputs that are no numbers are wrong."""
    squared = float(((outputs - data.targets[test]) ** 2).sum(axis=1).mean())
    if data.classes is None:
        return np.nan, squared
    known = np.isfinite(outputs).all(axis=1)
    return float(np.mean((data.classes[outputs.argmax(axis=1)] != data.labels[test]) | ~known)), squared


def _classes(fitted: Any, data: CurveData, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The class of every row: labels as they are, of scores the largest, which never is one that is not a number."""
    if outputs.ndim == 1:
        return outputs
    names = getattr(fitted, "classes", getattr(fitted, "classes_", None))
    names = data.classes if names is None or np.ndim(names) != 1 else np.asarray(names)
    assert names is not None
    if outputs.ndim != 2 or outputs.shape[1] != len(names):
        raise ShapeError(f"model predicts shape {outputs.shape}; expected labels (N,) or scores (N, {len(names)})")
    chosen = names[outputs.argmax(axis=1)]
    # a row without numbers gets a class that it does not have
    other = np.where(labels == data.classes[0], data.classes[1], data.classes[0])  # type: ignore[index]
    return np.where(np.isfinite(outputs).all(axis=1), chosen, other)
