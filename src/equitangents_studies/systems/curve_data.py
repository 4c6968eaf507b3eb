"""The data of a learning curve: a pool that training sets are drawn from, test data they never hold, errors on these.

Models are trained anew for every training set, from fresh copies.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import RegressorMixin, clone

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import Numbers, Targets, check_array, check_same_length
from equitangents_studies.data.dataset import Dataset

_SEEDS = ("seed", "random_state")  # parameters that are one

DataLike = Dataset | Numbers | tuple[Numbers, Targets] | tuple[Numbers, Targets, Numbers, Targets]
"""Inputs; (inputs, targets), the same followed by those to test on; or a data set."""


@dataclass(frozen=True, eq=False)
class CurveData:
    """Inputs (N, …), of which the first `pool` may be trained on; of classes, targets are one-hot minus 1/K.

    `held_out` of the pool are left to test on by every repetition, others each time; 0: the inputs beyond the pool are
    a test set of their own.
    """

    x: np.ndarray
    labels: np.ndarray
    targets: Float[np.ndarray, "n outputs"]
    classes: np.ndarray | None
    pool: int
    held_out: int

    @property
    def most(self) -> int:
        """The largest training set that there can be."""
        return self.pool - self.held_out

    @property
    def test_inputs(self) -> int:
        """How many inputs a repetition tests on."""
        return self.held_out or len(self.x) - self.pool

    def split(self, repetition: int, seed: int) -> tuple[Int[np.ndarray, " most"], Int[np.ndarray, " test"]]:
        """(rows in the order in which training sets take them, rows to test on): training sets are its beginnings."""
        order = np.random.default_rng((seed, repetition)).permutation(self.pool)
        if self.held_out:
            return order[: self.most], order[self.most :]
        return order, np.arange(self.pool, len(self.x))


def curve_data(data: DataLike, y: Targets | None = None, *, test: float | tuple[Numbers, Targets] = 0.2) -> CurveData:
    """What learning curves are measured on.

    data, y: inputs and targets; or a `Dataset`, or (x, y, test_x, test_y), in place of both and of `test`. Whole
    numbers, text and booleans are classes, other numbers are targets to regress on, (N,) or (N, outputs).
    test: (x, y) of their own, or the share of the data that every repetition leaves out to test on.
    """
    given = _given(data, y)
    x, labels = _arrays("x", given[0], given[1])
    pool, held_out = len(x), 0
    apart = given[2:] if len(given) == 4 else test
    if isinstance(apart, tuple | list) and len(apart) == 2:
        test_x, test_labels = _arrays("test", *apart)
        if test_x.shape[1:] != x.shape[1:] or test_labels.shape[1:] != labels.shape[1:]:
            raise ShapeError(
                "test",
                (test_x.shape, test_labels.shape),
                (x.shape, labels.shape),
                "inputs as those trained on",
                verb="has shapes",
            )
        _check_one_kind(labels, test_labels)
        x, labels = np.concatenate([x, test_x]).astype(x.dtype), np.concatenate([labels, test_labels])
    else:
        held_out = _share(apart, pool)
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
    """The sizes to measure at, checked; None: doubling, up to half of the `pool` that may be trained on."""
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


def _given(data: DataLike, y: Targets | None) -> Sequence[Numbers | Targets]:
    if isinstance(data, Dataset):
        if y is not None:
            raise InvalidArgumentError("y is given, and the data set has labels of its own; give one of them")
        return data.train_x, data.train_y, data.test_x, data.test_y
    if y is not None:
        return cast(Numbers, data), y
    if isinstance(data, tuple | list) and len(data) in (2, 4):
        return data
    raise InvalidTypeError(
        "data", type(data), "inputs and y, a Dataset, (x, y), or (x, y, test_x, test_y)", verb="is of type"
    )


def _arrays(name: str, x: Numbers, y: Targets) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.asarray(check_array(name, x, min_rank=2))
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        labels = np.asarray(check_array("y", labels, rank=(1, 2)))
    elif labels.dtype.kind not in "iubUS":
        raise InvalidTypeError("y", labels.dtype, "numbers or classes", verb="has dtype")
    check_same_length(name, inputs, "y", labels)
    return inputs, labels


def _check_one_kind(labels: np.ndarray, test_labels: np.ndarray) -> None:
    """Raise InvalidTypeError unless both are targets, or classes of one kind, which NumPy would make one of the two."""
    kinds = ("f", "iu", "b", "US")
    here, there = (next(kind for kind in kinds if a.dtype.kind in kind) for a in (labels, test_labels))
    if here != there or np.result_type(labels, test_labels).kind not in here:  # int64 beside uint64 is float64
        raise InvalidTypeError(
            "test",
            test_labels.dtype,
            str(labels.dtype),
            "floating targets in both, or classes of one kind",
            verb="has y of dtype",
        )


def _share(test: object, pool: int) -> int:
    if isinstance(test, bool) or not isinstance(test, int | float) or not 0 < test < 1:
        raise InvalidArgumentError("test", test, "(x, y), or a share of the data between 0 and 1")
    count = round(test * pool)
    if not 1 <= count < pool:
        raise InvalidArgumentError("test", test, range(1, pool), "inputs to test on")
    return count


class Trainable(Protocol):
    """What is trained anew: it has `fit`, and it or what that returns has `predict`."""

    def fit(self, x: np.ndarray, y: np.ndarray, /) -> object:
        """Learn the targets of inputs x."""


def fresh(model: object, seed: int) -> Trainable:
    """An untrained copy of `model`, with another seed where it has one; a function is called with the seed."""
    if not hasattr(model, "fit"):
        if not callable(model):
            raise InvalidTypeError(
                "model",
                model,
                "a network with `kernel`, an object with `fit` and `predict`, or a function of a seed that makes one",
            )
        made = model(seed)
        if not hasattr(made, "fit"):
            raise InvalidTypeError("model", made, "an object with `fit`", verb="made")
        return made
    if hasattr(model, "with_seed"):
        return model.with_seed(seed)
    if hasattr(model, "get_params"):
        copied = clone(model)
        named = [name for name in _SEEDS if name in copied.get_params()]
        return copied.set_params(**dict.fromkeys(named, seed))
    return copy.deepcopy(model)


def errors_of(model: object, data: CurveData, train: np.ndarray, test: np.ndarray, seed: int) -> tuple[float, float]:
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
        raise ShapeError("model", len(outputs), len(test), "one row for each input", verb="predicts rows,")
    if not regresses:
        return float(np.mean(_classes(fitted, data, outputs, data.labels[test]) != data.labels[test])), np.nan
    outputs = outputs.reshape(len(outputs), -1).astype(np.float64)
    if outputs.shape[1] != data.targets.shape[1]:
        raise ShapeError(
            "model",
            outputs.shape[1],
            data.targets.shape[1],
            "as many outputs as targets have",
            verb="predicts outputs,",
        )
    return both_errors(data, test, outputs)


def both_errors(data: CurveData, test: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """(share of test inputs in another class, mean of |f(x) − y|²); outputs that are no numbers are wrong."""
    squared = float(((outputs - data.targets[test]) ** 2).sum(axis=1).mean())
    if data.classes is None:
        return np.nan, squared
    known = np.isfinite(outputs).all(axis=1)
    return float(np.mean((data.classes[outputs.argmax(axis=1)] != data.labels[test]) | ~known)), squared


def _classes(fitted: object, data: CurveData, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The class of every row: labels as they are, of scores the largest, which never is one that is not a number."""
    if outputs.ndim == 1:
        return outputs
    names = getattr(fitted, "classes", getattr(fitted, "classes_", None))
    names = data.classes if names is None or np.ndim(names) != 1 else np.asarray(names)
    assert names is not None
    if outputs.ndim != 2 or outputs.shape[1] != len(names):
        raise ShapeError("model", outputs.shape, ("N", len(names)), "or labels (N,)", verb="predicts shape")
    chosen = names[outputs.argmax(axis=1)]
    # a row without numbers gets a class that it does not have
    other = np.where(labels == data.classes[0], data.classes[1], data.classes[0])  # type: ignore[index]
    return np.where(np.isfinite(outputs).all(axis=1), chosen, other)
