"""The data of a learning curve: a pool that training sets are drawn from, and test data that they never hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import Numbers, Targets, check_array, check_same_length
from equitangents_studies.data.dataset import Dataset

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
                f"test has shapes {test_x.shape} and {test_labels.shape}; those trained on have {x.shape} and "
                f"{labels.shape}"
            )
        x, labels = np.concatenate([x, test_x]).astype(x.dtype), np.concatenate([labels, test_labels])
    else:
        held_out = _share(apart, pool)
    if labels.dtype.kind == "f":
        return CurveData(x, labels, labels.astype(np.float64).reshape(len(x), -1), None, pool, held_out)
    classes, index = np.unique(labels, return_inverse=True)
    if labels.ndim != 1 or len(classes) < 2:
        raise InvalidArgumentError(f"y has shape {labels.shape} and {len(classes)} classes; expected (N,), 2 or more")
    return CurveData(x, labels, np.eye(len(classes))[index] - 1 / len(classes), classes, pool, held_out)


def training_sizes(sizes: Any, pool: int, least: int) -> Int[np.ndarray, " sizes"]:
    """The sizes to measure at, checked; None: doubling, up to half of the `pool` that may be trained on."""
    if sizes is None:
        count = int(np.log2(max(pool / 2 / least, 1))) + 1
        return (pool // 2) // 2 ** np.arange(count)[::-1]
    given = np.asarray(sizes)
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) < 1:
        raise InvalidTypeError(f"sizes is {sizes!r}; expected a list of whole numbers")
    if not ((given > 0).all() and (np.diff(given) > 0).all()):
        raise InvalidArgumentError(f"sizes is {given.tolist()}; expected positive numbers, increasing")
    if given[-1] > pool:
        raise InvalidArgumentError(f"sizes goes up to {given[-1]}; training sets are drawn from {pool} inputs")
    return given


def _given(data: Any, y: Any) -> tuple[Any, ...]:
    if isinstance(data, Dataset):
        if y is not None:
            raise InvalidArgumentError("y is given, and the data set has labels of its own; give one of them")
        return data.train_x, data.train_y, data.test_x, data.test_y
    if y is not None:
        return data, y
    if isinstance(data, tuple | list) and len(data) in (2, 4):
        return tuple(data)
    raise InvalidTypeError(
        f"data is of type {type(data).__name__} and y is None; expected inputs and y, a Dataset, (x, y), or "
        "(x, y, test_x, test_y)"
    )


def _arrays(name: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.asarray(check_array(name, x, min_rank=2))
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        labels = np.asarray(check_array("y", labels, rank=(1, 2)))
    elif labels.dtype.kind not in "iubUS":
        raise InvalidTypeError(f"y has dtype {labels.dtype}; expected numbers or classes")
    check_same_length(name, inputs, "y", labels)
    return inputs, labels


def _share(test: Any, pool: int) -> int:
    if isinstance(test, bool) or not isinstance(test, int | float) or not 0 < test < 1:
        raise InvalidArgumentError(f"test is {test!r}; expected (x, y), or a share of the data between 0 and 1")
    count = round(test * pool)
    if not 1 <= count < pool:
        raise InvalidArgumentError(f"test is {test!r} of {pool} inputs, which leaves {count} to test on")
    return count
