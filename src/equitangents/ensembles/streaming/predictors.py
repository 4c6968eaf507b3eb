"""What is predicted of a block of inputs: means, labels, standard deviations and probabilities as named arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import scipy.special

from equitangents._types import AnyModel, ArrayLike, Network, Times
from equitangents.archives import Archive
from equitangents.ensembles.deep.finite import Classification, FiniteEnsemble, Regression
from equitangents.ensembles.infinite import saving
from equitangents.ensembles.infinite.base import InfiniteEnsembleBase
from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.predictor import MeansAtATime
from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
from equitangents.ensembles.training.settings import array_digest
from equitangents.errors import EquitangentsError, InvalidArgumentError, InvalidTypeError, StoreError
from equitangents.inference.dynamics import one_time
from equitangents.kernels.cost import CostedKernel
from equitangents.kernels.orbit import OrbitAverage
from equitangents.nn import Sequential
from equitangents.tiles.place import local

CLASSES: dict[str, type[InfiniteEnsembleBase]] = {
    kind.__name__: kind for kind in (InfiniteEnsemble, InfiniteEnsembleClassifier)
}


@dataclass(frozen=True)
class Predictor:
    """Predicts named arrays by a fitted ensemble; by an infinite one at one training time.

    `arrays` are their names and the shape of a row of each; `outputs` gives them for a block of inputs (M, …). The
    fingerprint is of the ensemble, but for its labels; `samples` are those it was trained on, `dtype` theirs. One that
    is `standardised` takes inputs as they are given: rounded before they are shifted, what tells them apart may be
    lost.
    """

    fingerprint: str
    time: float | None
    sample_shape: tuple[int, ...]
    dtype: np.dtype
    samples: int
    classes: np.ndarray | None
    arrays: dict[str, tuple[int, ...]]
    outputs: Callable[[np.ndarray], dict[str, np.ndarray]]
    standardised: bool
    work: int = 0  # of an input: positions × pair offsets × layers × samples
    folder: Path | None = None  # of a saved ensemble, whose file somebody else may have written

    def predict(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays for a block of inputs, in float64; StoreError where those of a saved ensemble are none."""
        try:
            found = self.outputs(x)
            values = {name: np.asarray(found[name], np.float64) for name in self.arrays}
            if any(values[name].shape != (len(x), *shape) for name, shape in self.arrays.items()):
                raise ValueError("predictions have another shape than it says")
        except EquitangentsError:
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError) as error:
            if self.folder is None:
                raise
            reason = " ".join(str(error).split())
            raise StoreError(
                "model", str(self.folder), "a model whose parts fit each other", f"{reason}; fit the model again"
            ) from error
        return values

    def reads(self, x: ArrayLike) -> np.dtype:
        """The type in which rows of x are read."""
        if not self.standardised:
            return self.dtype
        given = np.dtype(x.dtype)
        return given if given.kind == "f" else np.dtype(np.float64)


def predictor(
    ensemble: AnyModel, time: Times | None, return_std: bool, net: Network, probabilities: bool = False
) -> Predictor:
    """What is asked of a fitted ensemble, or of an infinite one in a folder, of which only what is needed is read.

    Raises InvalidArgumentError for what such an ensemble does not predict.
    """
    if isinstance(ensemble, FiniteEnsemble):
        if probabilities:
            raise InvalidArgumentError("probabilities is True; a classifier of finite networks predicts them as mean")
        return _of_members(ensemble, time, return_std)
    folder: Path | None = None
    about: Archive | None = None
    if isinstance(ensemble, InfiniteEnsembleBase):
        ensemble._check_fitted()
        facts, fingerprint = saving.facts(ensemble), saving.fingerprint(ensemble)
    elif isinstance(ensemble, str | Path):
        folder = local("ensemble", ensemble)
        about = saving.about_model(folder)
        facts, fingerprint = about["facts"], about["fingerprint"]
    else:
        raise InvalidTypeError(
            "ensemble",
            ensemble,
            "a fitted infinite ensemble, or the folder of a saved one",
            "or a fitted ensemble of finite networks",
        )
    classes = _labels(facts["classes"])
    asked = one_time(facts["time"] if time is None else time, "predictions are written at one time")
    grid = tuple(facts["positions"])
    shape = grid if facts["outputs"] is None else (*grid, facts["outputs"])
    arrays: dict[str, tuple[int, ...]] = {"mean": shape}
    temperature = facts["temperature"] if asked == facts["time"] else None
    if probabilities and temperature is None:
        raise InvalidArgumentError(
            "probabilities is True, and the model is no classifier that is calibrated at this time; expected "
            "return_std=True for shares of networks, or calibrate=True"
        )
    if probabilities:
        arrays |= {"probability": shape}
    if return_std:
        arrays |= {"std": grid} | ({} if facts["classes"] is None else {"probability": shape})
    means, whole = None, ensemble
    if not return_std and asked == facts["time"]:
        means = saving.load_means(folder, net, about) if folder is not None else saving.means(ensemble)
    if means is None and folder is not None and about is not None:
        whole = saving.load(CLASSES[about["class"]], folder, net, about)
    regression: Any = whole.ensemble_ if isinstance(whole, InfiniteEnsembleClassifier) else whole

    def outputs(x: np.ndarray) -> dict[str, np.ndarray]:
        if means is not None:
            found = {"mean": means(x).reshape(len(x), *shape)}
        elif return_std:
            found = dict(zip(("mean", "std"), regression.predict(x, asked, return_std=True), strict=True))
        else:
            found = {"mean": regression.predict(x, asked)}
        if return_std and isinstance(whole, InfiniteEnsembleClassifier):
            found["probability"] = whole.predict_proba(x, asked)
        elif probabilities:
            found["probability"] = scipy.special.softmax(found["mean"] / temperature, axis=-1)
        return found

    return Predictor(
        fingerprint,
        asked,
        tuple(facts["sample_shape"]),
        np.dtype(facts["dtype"]),
        facts["samples"],
        classes,
        arrays,
        outputs,
        (whole.standardisation_ if means is None else means.standardisation) is not None,
        0 if means is None else _work(means),
        folder,
    )


def _work(means: MeansAtATime) -> int:
    """`Predictor.work` of networks on images and other grids; 0 of others, whose kernels are products of matrices."""
    inputs, kernel = means.inputs, means.kernel
    network = kernel.base if isinstance(kernel, OrbitAverage) else kernel
    if not isinstance(inputs, np.ndarray) or inputs.ndim < 3 or not isinstance(network, Sequential):
        return 0
    return cast(CostedKernel, kernel).kernel_cost(inputs.shape[1:], 1, len(inputs), inputs.dtype).element_layers


def _of_members(ensemble: FiniteEnsemble, time: Times | None, return_std: bool) -> Predictor:
    """Means of finite networks, or of classifiers their probabilities as `mean`."""
    ensemble._check_fitted()
    if time is not None:
        raise InvalidArgumentError("time", time, remedy="finite networks are trained to one time, so leave it None")
    grid, numbers = tuple(ensemble.positions_), ensemble.n_outputs_
    classifies = isinstance(ensemble, Classification)
    if classifies and return_std:
        raise InvalidArgumentError("return_std is True; finite networks that classify predict probabilities without it")
    shape = grid if getattr(ensemble, "_squeeze", False) else (*grid, numbers)

    def outputs(x: np.ndarray) -> dict[str, np.ndarray]:
        if isinstance(ensemble, Classification):
            return {"mean": ensemble.predict_proba(x)}
        assert isinstance(ensemble, Regression)
        mean, std = ensemble.predict(x, return_std=True)
        return {"mean": mean, "std": std} if return_std else {"mean": mean}

    count, units = ensemble.history_.shape[1], ensemble.standardisation_
    digests = [array_digest(leaf) for leaf in jax.tree.leaves([ensemble.params_, ensemble.params0_])]
    digests += [] if units is None else [array_digest(units.shift, units.scale)]
    classes = _labels(list(ensemble.classes_) if isinstance(ensemble, Classification) else None)
    return Predictor(
        json.dumps([type(ensemble).__name__, count, ensemble._fingerprint, digests]),
        None,
        tuple(ensemble.sample_shape_),
        np.dtype(ensemble.dtype),
        count * numbers * math.prod(grid),
        classes,
        {"mean": shape} | ({"std": shape} if return_std else {}),
        outputs,
        units is not None,
    )


def _labels(classes: list[Any] | None) -> np.ndarray | None:
    """Labels as an array; of whole numbers of which some fit only uint64, NumPy would make floating ones."""
    if classes is None:
        return None
    unsigned = all(type(label) is int for label in classes) and min(classes) >= 0 and 2**63 <= max(classes) < 2**64
    return np.array(classes, np.uint64 if unsigned else None)
