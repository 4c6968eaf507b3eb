"""What estimators accept: X as (N, features) or (N, *positions, channels), y as (N,) or (N, outputs)."""

from __future__ import annotations

import logging
import math
from typing import Any

import jax
import numpy as np
import scipy.sparse
import sklearn.exceptions
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from equitangents.actions.remedies import channels_first, remedy
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, NotFittedError, ShapeError
from equitangents.nn import Sequential
from equitangents.validation import as_rectangular, check_array, check_same_length, check_shape

logger = logging.getLogger("equitangents")


class EstimatorNotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):
    """Raised before `fit`; scikit-learn's error and ours in one."""


def check_inputs(estimator: BaseEstimator, x: Any, input_shape: tuple[int, ...] | None, *, reset: bool) -> Any:
    """x as a finite floating array (N, *input_shape), or (N, features…) as given if input_shape is None.

    With `reset` (in fit) records `n_features_in_` (and `feature_names_in_` of a data frame) on the estimator; without,
    checks x against them.
    """
    if hasattr(x, "columns"):
        validate_data(estimator, x, skip_check_array=True, reset=reset)
    x = check_array("X", _dense("X", x), min_rank=0, allow_empty=True)
    if x.ndim < 2:
        raise ShapeError(
            f"X has rank {x.ndim} (shape {x.shape}); expected (N, features) or (N, *positions, channels). "
            f"Reshape your data: X[:, None] for a single feature, X[None] for a single sample"
        )
    if x.size == 0:
        lacking = "sample" if len(x) == 0 else "feature"
        raise ShapeError(f"X has 0 {lacking}(s) (shape={x.shape}) while a minimum of 1 is required.")
    if input_shape is not None:
        shape = check_shape("input_shape", input_shape)
        if x.ndim == 2 and x.shape[1] == math.prod(shape):
            x = x.reshape(len(x), *shape)
        elif x.shape[1:] != shape:
            raise ShapeError(
                f"X has shape {x.shape}; with input_shape={shape} expected (N, {', '.join(map(str, shape))}) "
                f"or (N, {math.prod(shape)})"
            )
    features = math.prod(x.shape[1:])
    if reset:
        if hint := channels_first("X", x.shape):
            logger.warning("X may be transposed%s", hint)
        estimator.n_features_in_ = features
        estimator.sample_shape_ = x.shape[1:]
    elif x.shape[1:] != estimator.sample_shape_:
        raise ShapeError(
            f"X has {features} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            f"features as input: samples of shape {x.shape[1:]} in place of {estimator.sample_shape_}"
        )
    return x


def check_network(net: object, x: Any) -> None:
    """Raise NetworkError, with what may be wrong about x (N, …), unless it can go into a network of layers."""
    if not isinstance(net, Sequential):
        return
    try:
        net.signals(x.shape[1:])
    except NetworkError as error:
        raise NetworkError(f"{error} (X has shape {x.shape}){remedy('X', x.shape)}") from None


def check_targets(x: Any, y: Any, *, copies: bool = False) -> np.ndarray:
    """y as a finite float64 array (N,) or (N, outputs) with as many rows as x; with `copies` also (|G|, N, outputs)."""
    if y is None:
        raise InvalidArgumentError(
            "this estimator requires y to be passed, but the target y is None; expected (N,) or (N, outputs)"
        )
    y = np.asarray(check_array("y", _dense("y", y), rank=(1, 2, 3) if copies else (1, 2)), dtype=np.float64)
    if y.ndim < 3:
        check_same_length("X", x, "y", y)
    return y


def check_fields(y: Any) -> np.ndarray:
    """y as a finite float64 array of any shape: targets at the positions of a network's output."""
    if y is None:
        raise InvalidArgumentError("this estimator requires y to be passed, but the target y is None")
    return np.asarray(check_array("y", _dense("y", y), min_rank=1), dtype=np.float64)


def _dense(name: str, a: Any) -> Any:
    if scipy.sparse.issparse(a):
        raise InvalidTypeError(f"{name} is a sparse {type(a).__name__}; expected a dense array, e.g. {name}.toarray()")
    if isinstance(a, jax.Array):
        return a
    a = as_rectangular(name, a)
    if a.dtype.kind == "c":
        raise InvalidArgumentError(f"{name} has dtype {a.dtype}: Complex data not supported; expected real numbers")
    if a.dtype.kind in "OUS":
        try:
            return a.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"{name} has dtype {a.dtype}; expected real numbers ({error})") from None
    return a
