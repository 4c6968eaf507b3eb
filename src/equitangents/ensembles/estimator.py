"""Base of all ensembles as estimators: parameters, accepted inputs, targets and labels, and the score.

x (scikit-learn's X) is (N, features) or (N, *positions, channels), y (N,) or (N, outputs). If predictions are fields,
the score counts every position of every sample as a row. There is one label per sample, or one at every position of
an output.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import numpy as np
import scipy.sparse
import sklearn.exceptions
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from equitangents._types import ArrayLike, InputShape, Network, Numbers, Targets
from equitangents.actions.action import GroupAction, image_hint, is_infinite
from equitangents.actions.subset import ActionSubset, Augmentation
from equitangents.ensembles.fields import OutputPositions
from equitangents.ensembles.standardisation import Standardisation, fitted_standardisation
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NetworkError,
    NotFiniteError,
    NotFittedError,
    ShapeError,
)
from equitangents.keywords import named_also, unknown
from equitangents.nn import Sequential
from equitangents.structured import is_structured
from equitangents.validation import as_rectangular, check_array, check_same_length, check_shape, check_unmasked

logger = logging.getLogger("equitangents")

_LABELS = "biufUSO"  # kinds of arrays
_VERIFIED_SAMPLES = 4
_UNIT = 30.0  # how far the root mean square of inputs may be from 1 before it is warned of

if TYPE_CHECKING:

    class BaseEstimator:
        """The part of scikit-learn's base class that is used, with types, so that mypy checks arguments."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def set_params(self, **params: Any) -> Self: ...  # noqa: D102
        def __sklearn_clone__(self) -> Self: ...
        def __sklearn_tags__(self) -> Tags: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __getattr__(self, name: str) -> Any: ...
else:
    from sklearn.base import BaseEstimator


class EstimatorNotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):
    """Raised before `fit`; scikit-learn's error and ours in one."""


class Estimator(BaseEstimator):
    """scikit-learn's base class, with errors that suggest the right parameter or how to change it."""

    fitted_attribute: ClassVar[str]
    """The attribute that `fit` sets last; absent before a fit and after one that failed."""

    # x is the data, which scikit-learn knows as X, and no metadata to be routed
    __metadata_request__fit: ClassVar[dict[str, str]] = {"x": UNUSED}
    __metadata_request__predict: ClassVar[dict[str, str]] = {"x": UNUSED}
    __metadata_request__score: ClassVar[dict[str, str]] = {"x": UNUSED}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name and return self. Networks and actions are immutable: pass new ones.

        Raises InvalidArgumentError, before anything is set, for names that are not parameters.
        """
        known = self.get_params(deep=False)
        for name in params:
            outer, nested, _ = name.partition("__")
            if outer not in known:
                raise unknown("parameter", outer, sorted(known))
            value = params.get(outer, known[outer])
            if nested and not hasattr(value, "set_params"):
                instead, verb = "give another one: set_params(net=...)", "cannot be set in a"
                raise InvalidArgumentError(name, type(value), "an object with parameters", instead, verb=verb)
        return super().set_params(**params)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise EstimatorNotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self.fitted_attribute)


class StandardisedInputs:
    """Mixin for estimators with `standardise`: the fitted shift and scale, and the standardised inputs."""

    standardise: bool
    standardisation_: Standardisation | None = None

    def _fit_inputs(self, x: np.ndarray, net: Network, augmentation: Augmentation | None) -> np.ndarray:
        """Standardised x (N, …, channels); the standardisation is kept."""
        if not isinstance(self.standardise, bool | np.bool_):
            raise InvalidArgumentError("standardise", self.standardise, "True or False")
        self.standardisation_ = None
        if self.standardise:
            self.standardisation_ = fitted_standardisation(x, net, augmentation)
            logger.info("inputs are standardised: %s", self.standardisation_.how)
        else:
            _warn_of_units(x)
        trained = self._as_trained(x)
        if self.standardisation_ is not None and not np.any(trained):
            logger.warning(
                "each channel of X has one value in all %d inputs, so that standardised they are all equal, 0; without "
                "biases no kernel of them is positive definite",
                len(trained),
            )
        return trained

    def _as_trained(self, x: np.ndarray) -> np.ndarray:
        """Checked inputs (M, …, channels), standardised as in training."""
        return x if self.standardisation_ is None else self.standardisation_(x)


def _warn_of_units(x: ArrayLike) -> None:
    """Warn if inputs are so large or so small that predicted standard deviations are in a wrong unit."""
    x = np.asarray(x, np.float64)
    largest = float(np.abs(x).max()) or 1.0  # squares of huge numbers overflow
    size = largest * float(np.sqrt(np.mean(np.square(x / largest))))
    if size and not 1 / _UNIT <= size <= _UNIT:
        logger.warning(
            "X has numbers of size %.3g (root mean square), far from 1: deviations and probabilities of networks "
            "follow the unit of their inputs; standardise=True makes them independent of it",
            size,
        )


def check_inputs(estimator: Any, x: Numbers, input_shape: InputShape | None, *, reset: bool) -> np.ndarray:
    """x as a finite floating-point array (N, *input_shape), or in its own shape (N, features…) if input_shape is None.

    With `reset` (in fit) it records `n_features_in_` (and `feature_names_in_` of a data frame) on the estimator;
    otherwise it checks x against them.
    """
    if is_structured(x):
        instead = "solve with net.kernel(X), which takes masks and graphs, by equitangents.predict"
        raise InvalidTypeError("X", type(x), "arrays", instead, verb="is")
    if hasattr(x, "columns"):
        validate_data(estimator, x, skip_check_array=True, reset=reset)
    found: np.ndarray = check_array("X", _dense("X", x), min_rank=0, allow_empty=True)
    if found.ndim < 2:
        remedy = "Reshape your data: X[:, None] for a single feature, X[None] for a single sample"
        raise ShapeError("X", found.shape, "(N, features) or (N, *positions, channels)", remedy)
    if found.size == 0:
        lacking = "sample" if len(found) == 0 else "feature"
        raise ShapeError(f"X has 0 {lacking}(s) (shape={found.shape}) while a minimum of 1 is required.")
    if input_shape is not None:
        shape = check_shape("input_shape", input_shape)
        if found.ndim == 2 and found.shape[1] == math.prod(shape):
            found = found.reshape(len(found), *shape)
        elif found.shape[1:] != shape:
            expected = f"(N, {', '.join(map(str, shape))}) or (N, {math.prod(shape)})"
            raise ShapeError("X", found.shape, remedy=f"with input_shape={shape} expected {expected}")
    features = math.prod(found.shape[1:])
    if reset:
        if found.ndim == 4 and (hint := image_hint("X", found.shape)):
            logger.warning("X may be transposed%s", hint)
        estimator.n_features_in_ = features
        estimator.sample_shape_ = found.shape[1:]
    elif found.shape[1:] != estimator.sample_shape_:
        raise ShapeError(
            f"X has {features} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            f"features as input: samples of shape {found.shape[1:]} in place of {estimator.sample_shape_}"
        )
    return found


def check_network(net: object, x: ArrayLike) -> None:
    """Raise NetworkError, with a hint about x (N, …), unless x is a valid input of a network of layers."""
    if not isinstance(net, Sequential):
        return
    try:
        net.signals(x.shape[1:])
    except NetworkError as error:
        raise NetworkError(f"{error} (X has shape {x.shape}){image_hint('X', x.shape)}") from None


def check_actions(
    augmentation: Augmentation | None, label_action: GroupAction | None, x: ArrayLike, y: ArrayLike
) -> None:
    """Raise unless both are actions of one group; NotAnActionError if they are not actions on the first samples.

    augmentation: an action, some of its elements (`ActionSubset`), or None.
    """
    if augmentation is None:
        if label_action is not None:
            raise InvalidArgumentError("label_action", label_action, "None without augmentation")
        return
    if is_infinite(augmentation):
        expected = "a finite group, such as actions.rotations(groups.icosahedral())"
        instead = "or take elements that stand for all: actions.sampled(augmentation, count)"
        raise InvalidTypeError("augmentation", augmentation.group, expected, instead, verb="is of")
    full_action = augmentation.action if isinstance(augmentation, ActionSubset) else augmentation
    for name, action, values in (("augmentation", full_action, x), ("label_action", label_action, y)):
        if action is None:
            continue
        if not callable(action) or not hasattr(action, "group"):
            raise InvalidTypeError(name, action, "an action (equitangents.actions) or None")
        if action.group != full_action.group:
            other = "the group of augmentation"
            raise InvalidArgumentError("label_action", action.group, full_action.group, other, verb="is of")
        try:
            action.verify(values[:_VERIFIED_SAMPLES])
        except ShapeError as error:
            if name == "label_action":
                raise
            message = str(error).replace(str(np.shape(values[:_VERIFIED_SAMPLES])), str(np.shape(values)))
            raise ShapeError(f"augmentation by {action.name}: {message}{image_hint('X', np.shape(values))}") from None


def check_targets(
    x: ArrayLike, y: Targets, positions: OutputPositions | None = None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """(y as (N, outputs) or at positions (N, *positions, outputs), whether y came without the axis of outputs).

    Finite, in float64, with as many rows as x.
    """
    if y is None:
        expected = "; expected (N,) or (N, outputs)" if positions is None else ""
        raise InvalidArgumentError(f"this estimator requires y to be passed, but the target y is None{expected}")
    ranks = None if positions is not None else (1, 2)
    y = np.asarray(check_array("y", _dense("y", y), rank=ranks), dtype=np.float64)
    if positions is not None:
        return y, *positions.checked(y, len(x))
    check_same_length("X", x, "y", y)
    return (y, y[:, None], True) if y.ndim == 1 else (y, y, False)


def _dense(name: str, a: Numbers) -> ArrayLike:
    if scipy.sparse.issparse(a):
        raise InvalidTypeError(name, type(a), "a dense array", f"{name}.toarray() makes one", verb="is a sparse")
    if isinstance(a, jax.Array):
        return a
    a = as_rectangular(name, a)
    if a.dtype.kind == "c":
        raise InvalidArgumentError(name, a.dtype, "real numbers", "Complex data not supported", verb="has dtype")
    if a.dtype.kind in "OUS":
        try:
            return a.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(name, a.dtype, "real numbers", str(error), verb="has dtype") from None
    return a


class FieldRegressorMixin(RegressorMixin):
    """`score` for regressions whose predictions may be fields."""

    @named_also(X="x")
    def score(self, x: Numbers, y: Numbers, sample_weight: Numbers | None = None) -> float:
        """R² of the mean prediction, averaged over outputs; for fields each position of each sample is a row."""
        grid = positions_of(self)
        _, true, _ = check_targets(x, y, OutputPositions(grid) if grid else None)  # type: ignore[arg-type]
        rows = math.prod(grid) * len(true)
        predicted = np.asarray(self.predict(x)).reshape(rows, -1)
        return float(r2_score(true.reshape(rows, -1), predicted, sample_weight=each_row(sample_weight, grid)))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class FieldClassifierMixin(ClassifierMixin):
    """`score` for classifiers whose predictions may be fields of labels."""

    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"x": UNUSED}

    @named_also(X="x")
    def score(self, x: Numbers, y: Numbers, sample_weight: Numbers | None = None) -> float:
        """The fraction of correct labels; for fields each position of each sample counts."""
        grid = positions_of(self)
        if not grid:
            return float(super().score(x, y, sample_weight))
        labels, _ = labels_of(x, y, lambda *_: OutputPositions(grid))
        right = self.predict(x) == labels
        return float(np.average(right.ravel(), weights=each_row(sample_weight, grid)))


def target_rows(estimator: BaseEstimator, x: np.ndarray, y: Targets | None) -> np.ndarray | None:
    """Targets (n, K) of a fitted regression at inputs x, all values of a field in one row; None for y None."""
    if y is None:
        return None
    _, found, _ = check_targets(x, y, OutputPositions(estimator.positions_) if estimator.positions_ else None)
    if found.shape[-1] != estimator.n_outputs_:
        raise ShapeError("y", found.shape[-1], estimator.n_outputs_, "as in fit", verb="has a last axis of length")
    return found.reshape(len(found), -1)


def label_rows(estimator: BaseEstimator, x: np.ndarray, y: Targets | None) -> np.ndarray | None:
    """Class indices of labels y, (n,) or for fields (n, positions); None for y None."""
    if y is None:
        return None
    index = indices_of(labels_of(x, y, estimator._ends_on, name="x")[0], estimator.classes_)
    return index.reshape(len(x), -1) if estimator.positions_ else index


def positions_of(estimator: BaseEstimator) -> tuple[int, ...]:
    """The grid of a fitted estimator's outputs if they are fields, else ()."""
    net = getattr(getattr(estimator, "ensemble", estimator), "net", None)
    return () if getattr(net, "equivariant_outputs", None) is not None else tuple(getattr(estimator, "positions_", ()))


def each_row(sample_weight: Numbers | None, grid: tuple[int, ...]) -> np.ndarray | None:
    """Weights (N,) of samples, repeated for all their positions."""
    return None if sample_weight is None else np.repeat(np.asarray(sample_weight, np.float64), math.prod(grid))


def labels_of(
    x: Numbers,
    y: Targets,
    ends_on: Callable[[Any, np.ndarray], OutputPositions | None],
    *,
    name: str = "X",
) -> tuple[np.ndarray, OutputPositions | None]:
    """(labels of samples x, their positions): (N,), or (N, *positions) for networks that end on positions.

    Labels are discrete, of any type; a last axis of length 1 is dropped with a warning, as scikit-learn does.
    `ends_on(x, targets)` returns the positions. Errors call the samples `name`.
    """
    if y is None:
        raise InvalidArgumentError(
            "this classifier requires y to be passed, but the target y is None; expected labels (N,)"
        )
    check_unmasked("y", y)
    y, samples = np.asarray(y), len(np.asarray(x))
    positions = ends_on(x, y if y.ndim < 2 or y.shape[-1] == 1 else y[..., None])
    shape = (samples, *(() if positions is None else positions.shape))
    if y.ndim == len(shape) + 1 and y.shape[-1] == 1:
        text = f"A column-vector y was passed when a 1d array was expected: y has shape {y.shape}, expected {shape}"
        warnings.warn(text, DataConversionWarning, stacklevel=4)
        y = y[..., 0]
    if positions is None and y.ndim == 1:
        check_same_length(name, x, "y", y)
    if y.shape != shape:
        if positions is None:
            raise ShapeError("y", y.shape, "labels of shape (N,)")
        raise ShapeError(
            "y",
            y.shape,
            remedy=f"the network ends on {positions}, so for {samples} samples expected labels {shape}. For one label "
            "a sample, end the network with Flatten, GlobalAvgPool or GroupPool, and a Dense layer",
        )
    _check_discrete(y.ravel())
    return y, positions


def _check_discrete(y: np.ndarray) -> None:
    """Raise unless y holds labels of classes."""
    if y.dtype.kind not in _LABELS:
        expected = "labels that are whole numbers, text or truth values"
        raise InvalidTypeError("y", y.dtype, expected, "give y.astype(str), say", verb="holds")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NotFiniteError("y", tuple(map(int, np.argwhere(~np.isfinite(y))[0])), remedy="labels must be known")
    try:
        check_classification_targets(y)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError("y", "no class labels", "class labels", str(error), verb="holds") from None


def classes_of(labels: np.ndarray) -> np.ndarray:
    """The distinct labels, sorted; at least two."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise InvalidArgumentError("y", classes.tolist()[0], "more than 1 class", verb="holds one class,")
    return classes


def indices_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class index of each label; raises InvalidArgumentError for labels that `fit` did not see."""
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
