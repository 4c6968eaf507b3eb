"""A pilot: some networks of the planned kind, trained.

Beside infinitely wide ones: how much they vary along orbits, and how far they learn. With P = 1 − 11ᵀ/|G| taking away
the mean over an orbit, and f̄ the mean of m trained members,
    variance  Σ_i ‖P(f_i − f̄)‖² / (m − 1)  over  E‖P ε‖²,  ε ~ N(0, Σ)
    mean      ⟨f̄, μ⟩ / ⟨μ, μ⟩, the coefficient of μ in the mean of the trained members
both summed over all inputs and outputs, and free of the bias of finite m.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from equitangents._types import AnyModel, Numbers, Targets
from equitangents.ensembles import DeepEnsemble, DeepEnsembleClassifier, InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.ensembles.orbits.law import OrbitLaw
from equitangents.errors import InvalidArgumentError
from equitangents.inference.ridge import Ridge

logger = logging.getLogger("equitangents.pilot")

_SHARE_OF_STABLE = 0.25  # of the largest stable learning rate: steps that follow gradient flow


@dataclass(frozen=True)
class PilotTraining:
    """How long a pilot took."""

    epochs: int
    seconds: float


def train(ensemble: AnyModel, x: Numbers, y: Targets, members: int) -> tuple[AnyModel, PilotTraining]:
    """`members` networks of an ensemble, trained on x and y: the ensemble's first if it is not of other settings."""
    unused = {name: None for name in ("checkpoint_dir", "callback") if name in ensemble.get_params()}
    pilot = clone(ensemble).set_params(members=members, **unused)
    logger.info("training a pilot of %d networks for %d epochs", members, pilot.epochs)
    return pilot, PilotTraining(pilot.epochs, _seconds(pilot, x, y))


def _seconds(ensemble: AnyModel, x: Numbers, y: Targets) -> float:
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


def deep_like(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier, time: float, seed: int) -> AnyModel:
    """The ensemble of finite networks that a fitted infinite one describes at a training time, not yet trained.

    Full-batch gradient descent on the mean square, in steps of at most a quarter of the largest stable learning rate
    for gradient flow, and in the ensemble's own steps for dynamics="discrete".
    """
    check_descent(ensemble)
    epochs, rate = epochs_of(ensemble, time)
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


def epochs_of(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier, time: float) -> tuple[int, float]:
    """(epochs, learning rate) of gradient descent that reaches a time; raises where none does."""
    if not math.isfinite(time):
        raise InvalidArgumentError(
            f"time is {time}, which no pilot can be trained for; give a finite time, or plan without a pilot (pilot=0)"
        )
    if ensemble.dynamics != "flow":
        if time != round(time):
            raise InvalidArgumentError("time", time, remedy="a pilot is trained for a whole number of steps")
        epochs, rate = round(time), float(ensemble.learning_rate)
    else:
        total = time * float(ensemble.learning_rate)
        largest = min(float(ensemble.learning_rate), _SHARE_OF_STABLE * float(ensemble.max_learning_rate_))
        epochs = math.ceil(total / largest)
        rate = total / epochs if epochs else largest
    return epochs, rate


def check_descent(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier) -> None:
    """InvalidArgumentError unless its networks train by plain gradient descent, as those of a pilot do."""
    Ridge.number(ensemble.ridge, "a pilot is trained without any")
    _check_usual(ensemble, "ridge", 0.0)
    check_kernel(ensemble)
    if ensemble.dynamics not in ("flow", "discrete"):
        raise InvalidArgumentError("pilots are trained without momentum; plan without a pilot (pilot=0)")


def check_kernel(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier) -> None:
    """InvalidArgumentError unless all layers of its networks train."""
    _check_usual(ensemble, "kernel", "ntk")


def _check_usual(ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier, name: str, usual: float | str) -> None:
    if getattr(ensemble, name) != usual:
        raise InvalidArgumentError(
            name,
            getattr(ensemble, name),
            remedy=f"a pilot is trained by gradient descent, which is {name}={usual!r}; plan without a pilot (pilot=0)",
        )


@dataclass(frozen=True)
class Ratio:
    """Measured over predicted, with its interval over members."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Pilot:
    """Trained networks that a plan is made from.

    members            how many
    variance, mean     along orbits and of the outputs, relative to infinitely wide networks; None if not compared
    training           what it took, or None for a pilot that was given
    """

    members: int
    variance: Ratio | None = None
    mean: Ratio | None = None
    training: PilotTraining | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def facts(self) -> dict[str, str]:
        """What there is of it, by labels."""
        found = {"pilot": f"{self.members} networks"}
        if self.training is not None:
            found |= {"pilot, epochs": f"{self.training.epochs:,}", "pilot, seconds": f"{self.training.seconds:.3g}"}
        if self.variance is not None:
            found["variance / infinite width"] = str(self.variance)
        if self.mean is not None:
            found["mean / infinite width"] = str(self.mean)
        return found


def ratios(outputs: np.ndarray, law: OrbitLaw, confidence: float) -> tuple[Ratio | None, Ratio | None]:
    """(variance, mean) of a pilot's outputs (m, n, |G|, K) beside the law of infinitely wide networks.

    None where the law's are 0.
    """
    spread = spread_along_orbits(law)
    size = float((law.mean**2).sum())
    count = len(outputs)
    deviations = along_orbits(outputs).reshape(count, -1)
    products = (outputs * law.mean).sum(axis=(1, 2, 3))
    return (
        _jackknife(lambda kept: _variance(deviations[kept]) / spread, count, confidence, least=0.0)
        if spread > 0
        else None,
        _jackknife(lambda kept: float(products[kept].mean()) / size, count, confidence) if size > 0 else None,
    )


def spread_along_orbits(law: OrbitLaw) -> float:
    """E‖P ε‖² of one network, summed over inputs and outputs."""
    return float((along_orbits(law.fluctuations) ** 2).sum(axis=(1, 2, 3)).mean())


def along_orbits(f: np.ndarray) -> np.ndarray:
    """P f, of outputs (…, |G|, K): what is left without the mean over each orbit."""
    return f - f.mean(axis=-2, keepdims=True)


def _variance(deviations: np.ndarray) -> float:
    return float(((deviations - deviations.mean(axis=0)) ** 2).sum() / (len(deviations) - 1))


def _jackknife(
    statistic: Callable[[np.ndarray], float], count: int, confidence: float, least: float = -math.inf
) -> Ratio:
    everyone = np.arange(count)
    value = statistic(everyone)
    left_out = np.array([statistic(np.delete(everyone, i)) for i in range(count)])
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    width = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 1)) * error
    return Ratio(value, max(value - width, least), value + width)
