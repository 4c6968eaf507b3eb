"""Predictions of left-out samples: how often they are right, how well calibrated, and which are left open.

Probabilities are softmax(μ/T) of predictions without the sample, T the temperature of their smallest log loss, whether
or not the model itself is calibrated: one number fitted to all samples, so the calibration error is slightly small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier, fitted_temperature
from equitangents.errors import InvalidArgumentError
from equitangents.statistics import Estimate
from equitangents.statistics.student import binomial_ends

_BINS = 10


@dataclass(frozen=True)
class HeldOut:
    """Left-out samples: probabilities (N, K), their labels as indices of K `classes`, their names."""

    probabilities: Float[np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def predictions(self) -> Int[np.ndarray, " n"]:
        """The most probable classes, as indices."""
        return self.probabilities.argmax(axis=1)

    @property
    def hits(self) -> np.ndarray:
        """Whether each label is predicted, (N,)."""
        return self.predictions == self.labels

    @property
    def confidence(self) -> Float[np.ndarray, " n"]:
        """The probability of the predicted class, (N,)."""
        return self.probabilities[np.arange(len(self.labels)), self.predictions]

    @property
    def of_label(self) -> Float[np.ndarray, " n"]:
        """The probability of the label that was given, (N,)."""
        return self.probabilities[np.arange(len(self.labels)), self.labels]

    @staticmethod
    def of(model: InfiniteEnsembleClassifier, names: Sequence[str] = ()) -> HeldOut:
        """What a fitted classifier says of each sample when it is left out; `names` are by default their numbers.

        Raises InvalidArgumentError for labels at positions and for names of another number, and what
        `leave_one_out_` raises.
        """
        if model.positions_:
            raise InvalidArgumentError("the page is of one label a sample, and the model has one at every position")
        left = model.leave_one_out_
        outputs = left.outputs.predictions
        labels = np.argmax(outputs + left.outputs.residuals, axis=1)
        temperature = fitted_temperature(outputs, outputs + left.outputs.residuals)
        called = tuple(names) or tuple(f"sample {i}" for i in range(len(labels)))
        if len(called) != len(labels):
            raise InvalidArgumentError("names", len(called), len(labels), "give one for each sample", verb="has length")
        probabilities = scipy.special.softmax(outputs / temperature, axis=1)
        return HeldOut(probabilities, labels, tuple(map(str, model.classes_)), called)

    @property
    def accuracy(self) -> Estimate:
        """The share that is right, with the 95 % interval of a binomial law."""
        share = float(self.hits.mean())
        return Estimate(share, *binomial_ends(share, len(self.hits), 0.95, (0.0, 1.0)))

    def bins(self) -> list[tuple[float, float, int]]:
        """(mean confidence, share that is right, number) of up to ten groups of equally many samples, by confidence."""
        order = np.argsort(self.confidence, kind="stable")
        parts = np.array_split(order, min(_BINS, max(1, len(order) // 5)))
        return [(float(self.confidence[p].mean()), float(self.hits[p].mean()), len(p)) for p in parts]

    def calibration_error(self) -> float:
        """Σ_b (n_b/N) |share right − mean confidence| over the groups of `bins`."""
        return sum(n * abs(right - said) for said, right, n in self.bins()) / len(self.hits)

    def chance_error(self) -> float:
        """What `calibration_error` is about if every probability is right: Σ_b (n_b/N) √(2 p_b (1 − p_b)/(π n_b))."""
        parts = [n * math.sqrt(2 * said * (1 - said) / (math.pi * n)) for said, _, n in self.bins()]
        return sum(parts) / len(self.hits)

    def answered(self, least: float) -> tuple[float, float]:
        """(share of samples with a confidence of at least `least`, share of these that are right; NaN for none)."""
        kept = self.confidence >= least
        return float(kept.mean()), float(self.hits[kept].mean()) if kept.any() else math.nan
