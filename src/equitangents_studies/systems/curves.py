"""Learning curves: the error on test inputs against the number of training inputs, with nested training sets.

Each repetition orders the pool at random; its training set of size n is the first n. Test inputs are never trained on;
every training set trains a fresh copy of the model. For kernels one matrix and one Cholesky factor per repetition serve
all sizes, and the pool's spectrum predicts the squared error (`omniscient_risk`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import RegressorMixin, clone

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import (
    Numbers,
    Targets,
    check_array,
    check_choice,
    check_confidence,
    check_number,
    check_same_length,
    check_whole,
)
from equitangents.kernels import KernelFunction
from equitangents.report import Table, text_of, with_interval
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.systems.grams import KernelName, PoolKernel, Step, symmetric_kernel
from equitangents_studies.systems.power_laws import PowerLaw, fit_power_law
from equitangents_studies.systems.predictions import PREDICTIONS

_KINDS = ("f", "iu", "b", "US")  # of numbers to regress on, and of classes


@dataclass(frozen=True, eq=False)
class CurveData:
    """Inputs (N, …), of which the first `pool` may be trained on; of classes, targets are one-hot minus 1/K.

    Every repetition holds out `held_out` random inputs of the pool; 0: inputs beyond the pool are the test set.
    """

    x: np.ndarray
    labels: np.ndarray
    targets: Float[np.ndarray, "n outputs"]
    classes: np.ndarray | None
    pool: int
    held_out: int

    @property
    def most(self) -> int:
        """Size of the largest possible training set."""
        return self.pool - self.held_out

    def split(self, repetition: int, seed: int) -> tuple[Int[np.ndarray, " most"], Int[np.ndarray, " test"]]:
        """(rows in random order, test rows): the training set of size n is the first n rows."""
        order = np.random.default_rng((seed, repetition)).permutation(self.pool)
        if self.held_out:
            return order[: self.most], order[self.most :]
        return order, np.arange(self.pool, len(self.x))


def curve_data(x: Numbers, y: Targets, *, test: float | tuple[Numbers, Targets] = 0.2) -> CurveData:
    """Data of a learning curve: inputs and targets.

    Whole numbers, text and booleans are classes, other numbers regression targets, (N,) or (N, outputs). test: a test
    set (x, y), or the share of the data that every repetition holds out.
    """
    x, labels = _arrays("x", x, y)
    pool, held_out = len(x), 0
    if isinstance(test, tuple | list) and len(test) == 2:
        test_x, test_labels = _arrays("test", *test)
        if test_x.shape[1:] != x.shape[1:] or test_labels.shape[1:] != labels.shape[1:]:
            shapes = (test_x.shape, test_labels.shape), (x.shape, labels.shape)
            raise ShapeError("test", *shapes, "inputs as those trained on", verb="has shapes")
        here, there = (next(kind for kind in _KINDS if a.dtype.kind in kind) for a in (labels, test_labels))
        if here != there or np.result_type(labels, test_labels).kind not in here:  # int64 and uint64 give float64
            wanted = "floating targets in both, or classes of one kind"
            raise InvalidTypeError("test", test_labels.dtype, str(labels.dtype), wanted, verb="has y of dtype")
        x, labels = np.concatenate([x, test_x]).astype(x.dtype), np.concatenate([labels, test_labels])
    else:
        check_number("test", test, "(x, y), or a share of the data between 0 and 1", lambda share: 0 < share < 1)
        held_out = round(test * pool)
        if not 1 <= held_out < pool:
            raise InvalidArgumentError("test", test, range(1, pool), "inputs to test on")
    if labels.dtype.kind == "f":
        return CurveData(x, labels, labels.astype(np.float64).reshape(len(x), -1), None, pool, held_out)
    classes, index = np.unique(labels, return_inverse=True)
    if labels.ndim != 1 or len(classes) < 2:
        raise InvalidArgumentError("y", labels.shape, "labels (N,) of 2 or more classes", verb="has shape")
    return CurveData(x, labels, centred_classes(index, len(classes)), classes, pool, held_out)


def centred_classes(index: Int[np.ndarray, " n"], classes: int) -> Float[np.ndarray, "n classes"]:
    """Targets of classes by number: 1 − 1/K for the class and −1/K for the others."""
    return np.eye(classes)[index] - 1 / classes


def training_sizes(sizes: Sequence[int] | np.ndarray | None, pool: int, least: int) -> Int[np.ndarray, " sizes"]:
    """Check the training sizes; None: doubling, up to half of the `pool`."""
    if sizes is None:
        count = int(np.log2(max(pool / 2 / least, 1))) + 1
        return (pool // 2) // 2 ** np.arange(count)[::-1]
    given = np.asarray(sizes)
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) < 1:
        raise InvalidTypeError("sizes", sizes, "a list of whole numbers")
    if not ((given > 0).all() and (np.diff(given) > 0).all()):
        raise InvalidArgumentError("sizes", given.tolist(), "positive numbers, increasing")
    if given[-1] > pool:
        raise InvalidArgumentError("sizes", given[-1], range(1, pool + 1), verb="goes up to")
    return given


def _arrays(name: str, x: Numbers, y: Targets) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = np.asarray(check_array(name, x, min_rank=2)), np.asarray(y)
    if labels.dtype.kind == "f":
        labels = np.asarray(check_array("y", labels, rank=(1, 2)))
    elif labels.dtype.kind not in "iubUS":
        raise InvalidTypeError("y", labels.dtype, "numbers or classes", verb="has dtype")
    check_same_length(name, inputs, "y", labels)
    return inputs, labels


class Trainable(Protocol):
    """A model with `fit`; it, or the return value of `fit`, has `predict`."""

    def fit(self, x: np.ndarray, y: np.ndarray, /) -> object:
        """Learn the targets of inputs x."""


def fresh(model: object, seed: int) -> Trainable:
    """An untrained copy of `model`, with the given seed if it has one; a function is called with the seed."""
    if not hasattr(model, "fit"):
        made = model(seed) if callable(model) else model
        if not hasattr(made, "fit"):
            wanted = (
                "a network with `kernel`, an object with `fit` and `predict`, or a function of a seed that makes one"
            )
            raise InvalidTypeError("model", made, wanted)
        return made
    if hasattr(model, "with_seed"):
        return model.with_seed(seed)
    if hasattr(model, "get_params"):
        copied = clone(model)
        named = [name for name in ("seed", "random_state") if name in copied.get_params()]
        return copied.set_params(**dict.fromkeys(named, seed))
    return copy.deepcopy(model)


def errors_of(model: object, data: CurveData, train: np.ndarray, test: np.ndarray, seed: int) -> tuple[float, float]:
    """(classification error, mean squared error) on test inputs after training on the rows `train`; NaN if undefined.

    Regressors train on targets, one-hot minus 1/K for classes; classifiers train on labels and have no squared error,
    since their outputs are not on the scale of targets.
    """
    learner = fresh(model, seed)
    regresses = data.classes is None or isinstance(learner, RegressorMixin)
    y = data.targets if regresses and data.classes is not None else data.labels
    fitted = learner.fit(data.x[train], y[train])
    fitted = fitted if hasattr(fitted, "predict") else learner
    outputs = np.asarray(fitted.predict(data.x[test]))
    if len(outputs) != len(test):
        raise ShapeError("model", len(outputs), len(test), "one row for each input", verb="predicts rows,")
    if not regresses:
        return float(np.mean(_classes(fitted, data, outputs, data.labels[test]) != data.labels[test])), np.nan
    outputs = outputs.reshape(len(outputs), -1).astype(np.float64)
    if outputs.shape[1] != data.targets.shape[1]:
        wanted = data.targets.shape[1]
        raise ShapeError("model", outputs.shape[1], wanted, "as many as targets have", verb="predicts outputs,")
    return both_errors(data, test, outputs)


def both_errors(data: CurveData, test: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """(classification error, mean of |f(x) − y|²); outputs that are NaN count as wrong."""
    squared = float(((outputs - data.targets[test]) ** 2).sum(axis=1).mean())
    if data.classes is None:
        return np.nan, squared
    known = np.isfinite(outputs).all(axis=1)
    return float(np.mean((data.classes[outputs.argmax(axis=1)] != data.labels[test]) | ~known)), squared


def _classes(fitted: object, data: CurveData, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The class of every row: the label, or the largest score, ignoring NaN."""
    if outputs.ndim == 1:
        return outputs
    names = getattr(fitted, "classes", getattr(fitted, "classes_", None))
    names = np.asarray(data.classes if names is None or np.ndim(names) != 1 else names)
    if outputs.ndim != 2 or outputs.shape[1] != len(names):
        raise ShapeError("model", outputs.shape, ("N", len(names)), "or labels (N,)", verb="predicts shape")
    chosen = names[outputs.argmax(axis=1)]
    # a row without numbers gets a class that it does not have
    other = np.where(labels == data.classes[0], data.classes[1], data.classes[0])  # type: ignore[index]
    return np.where(np.isfinite(outputs).all(axis=1), chosen, other)


ErrorName = Literal["classification", "squared"]
_LEAST = 8  # inputs of the smallest default training set


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """Errors on test inputs, (sizes, repetitions): `classification`, a share of inputs, and `squared`, summed over
    outputs; None where there is none.

    `predicted` is the squared error that the pool's kernel predicts at each size; None where there is no kernel, or
    `predict` is None. Intervals are over repetitions, which draw training sets, and test sets unless one is given, from
    the same inputs.
    """

    model: str
    sizes: Int[np.ndarray, " sizes"]
    classification: Float[np.ndarray, "sizes repetitions"] | None
    squared: Float[np.ndarray, "sizes repetitions"] | None
    predicted: Float[np.ndarray, " sizes"] | None
    confidence: float = 0.95

    def of(self, error: ErrorName | None = None) -> Float[np.ndarray, "sizes repetitions"]:
        """The errors of one kind; None: classification errors of classifiers, else squared errors.

        Raises InvalidArgumentError if the model has no such error.
        """
        error = error or ("squared" if self.classification is None else "classification")
        check_choice("error", error, get_args(ErrorName))
        found = self.classification if error == "classification" else self.squared
        if found is None:
            raise InvalidArgumentError("error", error, "one that the model has", self.model)
        return found

    def estimates(self, error: ErrorName | None = None) -> tuple[Estimate, ...]:
        """The mean over repetitions at each size, with Student's interval; no interval if all repetitions are equal."""
        errors = self.of(error)
        top = 1.0 if errors is self.classification else np.inf
        return tuple(t_interval(row, self.confidence, (0.0, top)) for row in errors)

    def fit(self, segments: int = 2, error: ErrorName | None = None) -> PowerLaw:
        """The curve as power laws, by `fit_power_law`."""
        return fit_power_law(self.sizes, self.of(error), segments, confidence=self.confidence)

    def __repr__(self) -> str:
        columns = {"training inputs": [str(n) for n in self.sizes]}
        for kind in get_args(ErrorName):
            if getattr(self, kind) is not None:
                columns[f"{kind} error"] = [with_interval(e.value, e.interval) for e in self.estimates(kind)]
        if self.predicted is not None:
            columns["predicted"] = [f"{error:.4g}" for error in self.predicted]
        return text_of(Table(self.model, [*columns], [*zip(*columns.values(), strict=True)]))


def learning_curve(
    model: KernelFunction | Trainable | Callable[[int], object],
    x: Numbers,
    y: Targets,
    *,
    test: float | tuple[Numbers, Targets] = 0.2,
    sizes: Sequence[int] | np.ndarray | None = None,
    repetitions: int = 5,
    kernel: KernelName = "ntk",
    ridge: float = 1e-5,
    predict: Literal["spectrum", "inputs"] | None = "spectrum",
    seed: int = 0,
    confidence: float = 0.95,
    progress: Step = lambda done, total: None,
) -> LearningCurve:
    """Train on nested sets of growing size, repeatedly, and measure the error on test inputs.

    Args:
        model: an infinite network, which is anything with `kernel` (a network, an `orbit_average`):
            kernel regression, whose kernel is computed once; or any object with `fit` and `predict` (an ensemble, a
            `System`, estimators of scikit-learn, baselines), trained from scratch each time, or a function that
            makes one from a seed.
        x: the inputs (N, …).
        y: their targets: whole numbers or text are classes, other numbers are regressed on.
        test: the share of the data that every repetition holds out, or one test set (x, y) for all.
        sizes: of the training sets, increasing; None: doubling up to half of the data.
        repetitions: how many nested chains of training sets are drawn; two or more give intervals.
        kernel: of networks, "ntk" or "nngp".
        ridge: of networks; relative to the mean diagonal of the kernel of all data, and so the same at every size.
        predict: for networks, the squared error that is to be expected: from the "spectrum", from all "inputs"
            (slower, and valid if some inputs are far easier than others), or None; `predictions` has the formulas.
        seed: of the orders, and of models that have one.
        progress: called with (done, total).

    Source: arXiv 2207.04612 for nested training sets.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Erf(), et.nn.Dense(1))
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> curve = learning_curve(net, x, np.sin(x[:, 0]), sizes=[5, 10, 20])
    >>> curve.squared.shape, bool((np.diff(curve.squared.mean(axis=1)) < 0).all())
    ((3, 5), True)
    """
    given = curve_data(x, y, test=test)
    seed, count = check_whole("seed", seed, 0), check_whole("repetitions", repetitions, 1)
    n = training_sizes(sizes, given.most, _LEAST if given.classes is None else max(_LEAST, len(given.classes)))
    if predict is not None:
        check_choice("predict", predict, PREDICTIONS)
    check_confidence(confidence)
    check_number("ridge", ridge, "a finite number ≥ 0", lambda r: r >= 0)
    splits = [given.split(r, seed) for r in range(count)]
    errors, predicted = np.full((2, len(n), count), np.nan), None
    if hasattr(model, "kernel") and not hasattr(model, "fit"):
        network, halves = cast(KernelFunction, model), lambda done, total: progress(done / total, 2)
        matrices = PoolKernel(symmetric_kernel(network, given.x, kernel, halves, given.pool))
        errors, predicted = kernel_curve(matrices, given, splits, n, ridge, predict)
        progress(2, 2)
    else:
        for r, (order, held_out) in enumerate(splits):
            for i, size in enumerate(n):
                errors[:, i, r] = errors_of(model, given, order[:size], held_out, seed + r)
            progress(r + 1, count)
    classification, squared = (part if np.isfinite(part).all() else None for part in errors)  # NaN: there are none
    return LearningCurve(_name(model), n, classification, squared, predicted, confidence)


def _name(model: object) -> str:
    """Name of a model in results: its `name`, else its type's."""
    names = (getattr(model, "name", None), getattr(model, "__name__", None), type(model).__name__)
    return next(name for name in names if isinstance(name, str))


def kernel_curve(
    matrices: PoolKernel,
    data: CurveData,
    splits: list[tuple[np.ndarray, np.ndarray]],
    sizes: np.ndarray,
    ridge: float,
    predict: str | None,
) -> tuple[Float[np.ndarray, "two sizes repetitions"], Float[np.ndarray, " sizes"] | None]:
    """Measured classification and squared errors of kernel regression, and the predicted squared error."""
    errors = np.empty((2, len(sizes), len(splits)))
    for r, (order, test) in enumerate(splits):
        outputs = matrices.curve(data.targets, order, test, sizes, ridge)
        errors[:, :, r] = np.transpose([both_errors(data, test, f) for f in outputs])
    if predict is None:
        return errors, None
    return errors, PREDICTIONS[predict](matrices.pool, data.targets[: data.pool], sizes, ridge=ridge * matrices.unit)
