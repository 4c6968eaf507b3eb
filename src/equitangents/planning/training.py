"""A pilot: some networks of the planned kind, trained, with how long that was said to take and took."""

from __future__ import annotations

import logging
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from equitangents.ensembles import (
    DeepEnsemble,
    DeepEnsembleClassifier,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
)
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration

logger = logging.getLogger("equitangents.pilot")

_TRIAL = 4  # epochs whose time is taken
_WORTH_A_TRIAL = 5 * _TRIAL  # shorter trainings are not forecast, but done
_SHARE_OF_STABLE = 0.25  # of the largest stable learning rate: steps that follow gradient flow


@dataclass(frozen=True)
class PilotTraining:
    """How long a pilot was expected to take after a trial, and took. None: too short to be forecast."""

    epochs: int
    estimated_seconds: float | None
    seconds: float

    def __str__(self) -> str:
        said = "" if self.estimated_seconds is None else f" ({duration(self.estimated_seconds)} were expected)"
        return f"trained for {self.epochs:,} epochs in {duration(self.seconds)}{said}"


def train(ensemble: Any, x: Any, y: Any, members: int) -> tuple[Any, PilotTraining]:
    """`members` networks of an ensemble, trained on x and y: the ensemble's first if it is not of other settings."""
    unused = {name: None for name in ("checkpoint_dir", "callback") if name in ensemble.get_params()}
    pilot = clone(ensemble).set_params(members=members, **unused)
    estimate = _estimate(pilot, x, y)
    if estimate is not None:
        logger.info(
            "Training a pilot of %d networks for %d epochs: about %s", members, pilot.epochs, duration(estimate)
        )
    return pilot, PilotTraining(pilot.epochs, estimate, _seconds(pilot, x, y))


def _estimate(pilot: Any, x: Any, y: Any) -> float | None:
    if pilot.epochs < _WORTH_A_TRIAL:
        return None
    trial = lambda epochs: _seconds(clone(pilot).set_params(epochs=epochs, progress=False), x, y)
    trial(1)  # compiles
    single = trial(1)
    each = max(0.0, trial(1 + _TRIAL) - single) / _TRIAL
    return single + each * (pilot.epochs - 1)


def _seconds(ensemble: Any, x: Any, y: Any) -> float:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an error below
        ensemble.fit(x, y)
    if not np.isfinite(ensemble.history_).all():
        bad = int((~np.isfinite(ensemble.history_).all(axis=0)).sum())
        raise InvalidArgumentError(
            f"the pilot's training diverged for {bad} of {ensemble.history_.shape[1]} networks; lower learning_rate, "
            f"which is {ensemble.learning_rate:g}"
        )
    return time.perf_counter() - begin


def deep_like(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier, time: float, seed: int) -> Any:
    """The ensemble of finite networks that a fitted infinite one describes at a training time, not yet trained.

    Full-batch gradient descent on the mean square, in steps of at most a quarter of the largest stable learning rate
    for gradient flow, and in the ensemble's own steps for dynamics="discrete".
    """
    for name, usual in (("ridge", 0.0), ("kernel", "ntk")):
        if getattr(ensemble, name) != usual:
            raise InvalidArgumentError(
                f"{name} is {getattr(ensemble, name)!r}; a pilot is trained by gradient descent, which is "
                f"{name}={usual!r}; plan without a pilot (pilot=0, --pilot 0)"
            )
    if not math.isfinite(time):
        raise InvalidArgumentError(
            f"time is {time}, which no pilot can be trained for; give a finite time, or plan without a pilot "
            "(pilot=0, --pilot 0)"
        )
    if ensemble.dynamics not in ("flow", "discrete"):
        raise InvalidArgumentError("pilots are trained without momentum; plan without a pilot (pilot=0, --pilot 0)")
    if ensemble.dynamics == "discrete":
        if time != round(time):
            raise InvalidArgumentError(f"time is {time}; a pilot is trained for a whole number of steps")
        epochs, rate = round(time), float(ensemble.learning_rate)
    else:
        total = time * float(ensemble.learning_rate)
        largest = min(float(ensemble.learning_rate), _SHARE_OF_STABLE * float(ensemble.max_learning_rate_))
        epochs = math.ceil(total / largest)
        rate = total / epochs if epochs else largest
    labels = isinstance(ensemble, InfiniteEnsembleClassifier)
    return (DeepEnsembleClassifier if labels else DeepEnsemble)(
        ensemble.net,
        augmentation=ensemble.augmentation,
        label_action=ensemble.label_action,
        optimizer="gd",
        loss="mse",
        learning_rate=rate,
        epochs=epochs,
        seed=seed,
        input_shape=ensemble.input_shape,
        memory_limit=ensemble.memory_limit,
        standardise=ensemble.standardise,
    )
