"""Learning curves: the error on test inputs against the number of training inputs, with nested training sets.

Each repetition puts the pool in an order of its own; its training set of n is the first n. Of kernels one matrix and
one Cholesky factor a repetition serve all sizes, and the pool's spectrum predicts the squared error (`omniscient`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import clone

from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.extending import Numbers, Targets, check_confidence, check_whole
from equitangents.kernels import KernelFunction, Kernels
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.systems.conventions import Step, check_ridge, lines_of, model_name, steps
from equitangents_studies.systems.curve_data import (
    CurveData,
    DataLike,
    Trainable,
    both_errors,
    curve_data,
    errors_of,
    training_sizes,
)
from equitangents_studies.systems.grams import KernelName, KernelTable, PoolKernel, pool_kernel
from equitangents_studies.systems.power_laws import PowerLaw, fit_power_law
from equitangents_studies.systems.predictions import PREDICTIONS, Missed, missed

ErrorName = Literal["classification", "squared"]
_LEAST = 8  # inputs of the smallest default training set


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """Errors on test inputs, (sizes, repetitions): `classification`, a share of inputs, and `squared`, summed over
    outputs; None where there is none.

    `predicted` is the squared error that the pool's kernel predicts at each size, `prediction` how; None where there is
    no kernel, or none was asked for. Intervals are over repetitions, which all draw their training sets from the same
    `pool` inputs, and what they test on, too, unless a test set was given: then that is the same for all.
    """

    model: str
    sizes: Int[np.ndarray, " sizes"]
    classification: Float[np.ndarray, "sizes repetitions"] | None
    squared: Float[np.ndarray, "sizes repetitions"] | None
    predicted: Float[np.ndarray, " sizes"] | None
    prediction: str | None
    pool: int
    test_inputs: int
    seed: int
    confidence: float = 0.95

    @property
    def errors(self) -> Float[np.ndarray, "sizes repetitions"]:
        """Classification errors of classifiers, else squared errors."""
        return self.of("squared" if self.classification is None else "classification")

    def of(self, error: ErrorName) -> Float[np.ndarray, "sizes repetitions"]:
        """The errors of one kind. Raises InvalidArgumentError where the model has none of it."""
        if error not in ("classification", "squared"):
            raise InvalidArgumentError("error", error, "'classification' or 'squared'")
        found = self.classification if error == "classification" else self.squared
        if found is None:
            raise InvalidArgumentError("error", error, "one that the model has", self.model)
        return found

    def estimates(self, error: ErrorName | None = None) -> tuple[Estimate, ...]:
        """The mean over repetitions at each size, with Student's interval; none where all repetitions are equal."""
        errors = self.errors if error is None else self.of(error)
        top = 1.0 if errors is self.classification else np.inf
        return tuple(t_interval(row, self.confidence, (0.0, top)) for row in errors)

    def fit(self, segments: int | Literal["auto"] = "auto", error: ErrorName | None = None) -> PowerLaw:
        """The curve as power laws, by `fit_power_law`."""
        return fit_power_law(
            self.sizes, self.errors if error is None else self.of(error), segments, confidence=self.confidence
        )

    @property
    def prediction_ratio(self) -> Float[np.ndarray, " sizes"]:
        """Predicted over measured squared error, at each size."""
        if self.predicted is None:
            raise InvalidArgumentError("model", self.model, "one of which something was predicted")
        return self.predicted / self.of("squared").mean(axis=1)

    @property
    def missed(self) -> Missed | None:
        """The size at which every training set has over twice the squared error predicted, or under half of it.

        None where there is none, and where nothing was predicted. Inputs that nearly repeat each other make predictions
        hundreds of times too low.
        """
        if self.predicted is None or self.squared is None:
            return None
        return missed(self.sizes, self.predicted, self.squared)

    @property
    def table(self) -> dict[str, list[float]]:
        """One row a size: means, the ends of their intervals, and what was predicted."""
        columns: dict[str, list[float]] = {"training_inputs": self.sizes.tolist()}
        for kind in ("classification", "squared"):
            if getattr(self, kind) is not None:
                rows = self.estimates(kind)
                columns[f"{kind}_error"] = [e.value for e in rows]
                columns[f"{kind}_low"], columns[f"{kind}_high"] = ([e.low for e in rows], [e.high for e in rows])
        if self.predicted is not None:
            columns["squared_predicted"] = self.predicted.tolist()
        return columns

    def __repr__(self) -> str:
        return "\n".join([self.model, lines_of(self.table), *([repr(self.missed)] if self.missed else [])])


def learning_curve(
    model: KernelFunction | Trainable | Callable[[int], object],
    data: DataLike,
    y: Targets | None = None,
    *,
    test: float | tuple[Numbers, Targets] = 0.2,
    sizes: Sequence[int] | np.ndarray | None = None,
    repetitions: int = 5,
    kernel: KernelName = "ntk",
    ridge: float = 1e-5,
    predict: Literal["spectrum", "inputs"] | None = "spectrum",
    seed: int = 0,
    confidence: float = 0.95,
    progress: bool | Step = False,
) -> LearningCurve:
    """Train on nested sets of growing size, several times over, and measure the error on inputs never trained on.

    Args:
        model: an infinite network, which is anything with `kernel` (a network, an `orbit_average`, a `KeptKernel`):
            kernel regression, whose kernel is computed once; an `InfiniteEnsemble` or `InfiniteEnsembleClassifier`
            without augmentation, whose kernel is, too; or any object with `fit` and `predict` (`DeepEnsemble`, a
            `System`, estimators of scikit-learn, baselines), trained anew each time, or a function of a seed that
            makes one.
        data: the inputs (N, …); also a `Dataset`, or (x, y, test_x, test_y).
        y: their targets: whole numbers or text are classes, other numbers are regressed on.
        test: the share of the data that every repetition draws to test on, or (x, y) of their own, the same for all.
        sizes: of the training sets, increasing; None: doubling up to half of the data.
        repetitions: how many nested chains of training sets are drawn; two or more give intervals.
        kernel: of networks, "ntk" or "nngp".
        ridge: of networks; relative to the mean diagonal of the kernel of all data, and so the same at every size.
        predict: for networks, the squared error that is to be expected: from the "spectrum" alone (`omniscient_risk`),
            from all "inputs" (`cavity_risk`: dearer, and true where some inputs are far easier than others), or None.
        seed: of the orders, and of models that have one.
        progress: True shows a bar; a function is called with (done, total).

    Sources: arXiv 2207.04612 for nested training sets; see `omniscient_risk` for the prediction.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Erf(), et.nn.Dense(1))
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> curve = learning_curve(net, x, np.sin(x[:, 0]), sizes=[5, 10, 20])
    >>> curve.squared.shape, bool((np.diff(curve.squared.mean(axis=1)) < 0).all())
    ((3, 5), True)
    """
    given = curve_data(data, y, test=test)
    seed = check_whole("seed", seed, 0)
    least = _LEAST if given.classes is None else max(_LEAST, len(given.classes))
    n = training_sizes(sizes, given.most, least)
    count = check_whole("repetitions", repetitions, 1)
    if predict is not None and predict not in PREDICTIONS:
        raise InvalidArgumentError("predict", predict, "'spectrum', 'inputs' or None")
    check_confidence(confidence)
    splits = [given.split(r, seed) for r in range(count)]
    errors, predicted = np.full((2, len(n), count), np.nan), None
    name = model_name(model)
    with steps(f"Learning curve of {name}", progress) as step:
        if hasattr(model, "kernel") and not hasattr(model, "fit"):
            network = cast(KernelFunction, model)
            matrices = pool_kernel(network, given.x, given.pool, kernel, lambda done, total: step(done / total, 2))
            errors, predicted = kernel_curve(matrices, given, splits, n, check_ridge(ridge), predict)
            step(2, 2)
        else:
            learner, given = _tabled(model, given, lambda done, total: step(done / total, 1 + count))
            for r, (order, held_out) in enumerate(splits):
                for i, size in enumerate(n):
                    errors[:, i, r] = errors_of(learner, given, order[:size], held_out, seed + r)
                step(1 + r + 1, 1 + count)
    return curve_of(name, given, n, errors, predicted, predict, seed, confidence)


def curve_of(
    name: str,
    data: CurveData,
    sizes: Int[np.ndarray, " sizes"],
    errors: Float[np.ndarray, "two sizes repetitions"],
    predicted: Float[np.ndarray, " sizes"] | None,
    prediction: str | None,
    seed: int,
    level: float,
) -> LearningCurve:
    """The curve of classification and squared errors; NaN stands for those that there are not."""
    classification, squared = (part if np.isfinite(part).all() else None for part in errors)
    how = None if predicted is None else prediction
    return LearningCurve(name, sizes, classification, squared, predicted, how, data.pool, data.test_inputs, seed, level)


def kernel_curve(
    matrices: PoolKernel,
    data: CurveData,
    splits: list[tuple[np.ndarray, np.ndarray]],
    sizes: np.ndarray,
    ridge: float,
    predict: str | None,
) -> tuple[Float[np.ndarray, "two sizes repetitions"], Float[np.ndarray, " sizes"] | None]:
    """Classification and squared errors of kernel regression, and the squared error that is predicted."""
    errors = np.empty((2, len(sizes), len(splits)))
    for r, (order, test) in enumerate(splits):
        outputs = matrices.curve(data.targets, order, test, sizes, ridge)
        errors[:, :, r] = np.transpose([both_errors(data, test, f) for f in outputs])
    if predict is None:
        return errors, None
    return errors, PREDICTIONS[predict](matrices.pool, data.targets[: data.pool], sizes, ridge=ridge * matrices.unit)


def _tabled(model: object, data: CurveData, step: Step) -> tuple[object, CurveData]:
    """An infinite ensemble with its kernel read from one matrix, and inputs that are its rows; others as they are."""
    if not isinstance(model, InfiniteEnsemble | InfiniteEnsembleClassifier):
        return model, data
    if model.augmentation is not None or model.label_action is not None:
        return model, data
    shape = model.input_shape
    x = data.x if shape is None else data.x.reshape(len(data.x), *shape)
    K = pool_kernel(cast(KernelFunction, model.net), x, data.pool, model.kernel, step).matrix

    def between(i: np.ndarray, j: np.ndarray) -> Kernels:
        part = K[np.ix_(i, j)] if j.max() < data.pool else K[np.ix_(j, i)].T
        return Kernels(part, part)

    rows = np.arange(len(x), dtype=np.float64)[:, None]
    return clone(model).set_params(net=KernelTable(between), input_shape=None), replace(data, x=rows)
