"""Candidates, the choice and its scores on left-out samples: as data, and as tables of labels and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.fit.assessing import Folds, Sets, Subset
from equitangents.formatting import formatted
from equitangents.inference.probabilities import fitted_temperature
from equitangents.report import Table
from equitangents.report.numbers import format_number
from equitangents.report.render import text_of
from equitangents.statistics import Estimate, bootstrap
from equitangents.statistics.student import binomial_ends

ACCURACY = "accuracy (95\N{NO-BREAK SPACE}%)"  # of columns
FAST, _SHOWN, _BINS = 20.0, 20, 10  # images per second; candidates of a table; bins of confidence


@dataclass(frozen=True)
class HeldOut:
    """Left-out samples: probabilities (N, K) and labels as indices of K `classes`."""

    probabilities: Float[np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...]

    @property
    def predictions(self) -> Int[np.ndarray, " n"]:
        """The most probable classes, as indices."""
        return self.probabilities.argmax(axis=1)

    @property
    def hits(self) -> np.ndarray:
        """Whether each prediction is the label, (N,)."""
        return self.predictions == self.labels

    @property
    def confidence(self) -> Float[np.ndarray, " n"]:
        """The probability of the predicted class, (N,)."""
        return self.probabilities.max(axis=1)

    @property
    def of_label(self) -> Float[np.ndarray, " n"]:
        """The probability of the label, (N,)."""
        return self.probabilities[np.arange(len(self.labels)), self.labels]

    @staticmethod
    def of(model: InfiniteEnsembleClassifier) -> HeldOut:
        """Leave-one-out predictions of a fitted classifier: softmax(μ/T) of the mean μ without the sample.

        T minimises their log loss, whether or not the model is calibrated. As this one number is fitted to all samples,
        the calibration error is slightly too small. Raises InvalidArgumentError for labels at positions, and what
        `leave_one_out_` raises.
        """
        if model.positions_:
            raise InvalidArgumentError("left-out samples have one label each, and the model has one at every position")
        left, T = model.leave_one_out_.outputs, model.temperature_
        targets = left.predictions + left.residuals
        T = fitted_temperature(left.predictions, targets) if T is None else T
        p = scipy.special.softmax(left.predictions / T, axis=1)
        return HeldOut(p, np.argmax(targets, axis=1), tuple(map(str, model.classes_)))

    @property
    def accuracy(self) -> Estimate:
        """Share of correct predictions, with the 95 % interval of a binomial law."""
        share = float(self.hits.mean())
        return Estimate(share, *binomial_ends(share, len(self.hits), 0.95, (0.0, 1.0)))

    def bins(self) -> list[tuple[float, float, int]]:
        """(mean confidence, accuracy, number) of up to ten groups of equally many samples, by confidence."""
        order = np.argsort(self.confidence, kind="stable")
        parts = np.array_split(order, min(_BINS, max(1, len(order) // 5)))
        return [(float(self.confidence[p].mean()), float(self.hits[p].mean()), len(p)) for p in parts]

    def calibration_error(self) -> float:
        """Σ_b (n_b/N) |accuracy − mean confidence| over the groups of `bins`."""
        return sum(n * abs(accuracy - confidence) for confidence, accuracy, n in self.bins()) / len(self.hits)

    def chance_error(self) -> float:
        """Expected `calibration_error` of correct probabilities, about Σ_b (n_b/N) √(2 p_b (1 − p_b)/(π n_b))."""
        return sum(math.sqrt(2 * n * p * (1 - p) / math.pi) for p, _, n in self.bins()) / len(self.hits)

    def answered(self, least: float) -> tuple[float, float]:
        """(share of samples with a confidence of at least `least`, accuracy on these; NaN for none)."""
        kept = self.confidence >= least
        return float(kept.mean()), float(self.hits[kept].mean()) if kept.any() else math.nan


@dataclass(frozen=True)
class CandidateScore:
    """A candidate with one of its kernels, "ntk" or "nngp", and its scores on left-out samples with the best ridge.

    group: the augmentation's, "" for none. log_loss: a mean over classes. seconds: for both of the network's kernels.
    at_smallest_ridge: whether the ridge is the smallest that the kernel's precision allows.
    """

    name: str
    group: str
    kernel: str
    precision: str
    ridge: float
    log_loss: float
    accuracy: float
    seconds: float
    images_per_second: float
    at_smallest_ridge: bool


@dataclass(frozen=True, eq=False)
class ModelScore:
    """Predictions of each sample by a model that was chosen and fitted without its fold.

    accuracy: with its 95 % interval over sets of samples that are left out together. log_loss: a mean over samples.
    difference: accuracy minus that of the chosen model on the same samples, with its 95 % interval.
    """

    name: str
    held: HeldOut
    accuracy: Estimate
    log_loss: float
    difference: Estimate


@dataclass(frozen=True)
class RotationScore:
    """Accuracy and mean probability of the predicted class on copies rotated by `angle` degrees."""

    angle: float
    copies: int
    accuracy: Estimate
    confidence: float


@dataclass(frozen=True)
class LearningCurvePoint:
    """Accuracy on left-out samples after training on `samples` others (a mean over folds)."""

    samples: int
    accuracy: Estimate


@dataclass(frozen=True, eq=False)
class Choice:
    """The result of `auto`.

    model: the chosen classifier, calibrated and fitted to all samples. tried: candidates with a score, in the order in
    which they were tried; chosen: the index of the best. score: that of the whole procedure, by folds on which nothing
    was chosen; baselines: on the same folds. rows: the samples of these scores, all but those of a fold that ordered
    the candidates. untried, uncompared: candidates and baselines for which there was no time. refused: names and
    reasons of candidates without a score. folds, sets: their numbers; sets is None if samples are left out one by one.
    near_duplicates: pairs of nearly equal images of different sets, which make scores too good. rotations, curve:
    scores on rotated images, and by number of training samples. interrupted: whether Ctrl-C ended the search.
    """

    model: InfiniteEnsembleClassifier
    tried: tuple[CandidateScore, ...]
    chosen: int
    score: ModelScore
    baselines: tuple[ModelScore, ...]
    rows: Int[np.ndarray, " scored"]
    untried: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    uncompared: tuple[str, ...]
    folds: int
    sets: int | None
    near_duplicates: tuple[tuple[int, int], ...]
    rotations: tuple[RotationScore, ...]
    curve: tuple[LearningCurvePoint, ...]
    interrupted: bool

    @property
    def doubled(self) -> float | None:
        """Accuracy extrapolated to twice the samples; None where the learning curve does not allow it.

        The error is taken to fall by the same ratio as from half of the samples, e(2m) = e(m)²/e(m/2).
        """
        if len(self.curve) < 2:
            return None
        half, full = (1 - each.accuracy.value for each in self.curve[-2:])
        return 1 - full**2 / half if 0 < full <= half else None

    @property
    def best(self) -> CandidateScore:
        """The chosen candidate, with its scores."""
        return self.tried[self.chosen]

    @property
    def best_fast(self) -> CandidateScore | None:
        """The best that predicts 20 images per second or more, or None."""
        fast = (each for each in self.tried if each.images_per_second >= FAST)
        return min(fast, key=lambda each: each.log_loss, default=None)

    def __str__(self) -> str:
        return text_of(self.score_table, self.candidate_table)

    @property
    def left_out(self) -> str:
        """What is left out together."""
        return "one sample at a time" if self.sets is None else f"{self.sets:,} sets of samples"

    @property
    def score_table(self) -> Table:
        """The chosen model and the baselines, on folds on which nothing was chosen."""
        rows = [
            [m.name, percentage(m.accuracy), f"{m.log_loss:.3f}", f"{m.held.calibration_error():.3f}",
             ends(m.difference)]
            for m in (self.score, *self.baselines)
        ]  # fmt: skip
        rows[0][-1] = ""  # the reference of the differences
        rows += [[name, "no time", "", "", ""] for name in self.uncompared]
        header = ["model", ACCURACY, "log loss", "calibration", "difference (95\N{NO-BREAK SPACE}%)"]
        return Table(f"{self.folds} folds, left out: {self.left_out}; differences in percentage points", header, rows)

    @property
    def rotation_table(self) -> Table:
        """Accuracy and confidence at each angle."""
        rows = [
            [f"{r.angle:.0f}°", f"{r.copies:,}", percentage(r.accuracy), f"{r.confidence:.3f}"] for r in self.rotations
        ]
        header = ["angle", "images", ACCURACY, "mean probability"]
        return Table("Left-out images, rotated by angles outside the group", header, rows)

    @property
    def candidate_table(self) -> Table:
        """Candidates by the log loss that chose among them, the best first; those without a score last."""
        rows = [
            [" *"[t is self.best] + t.name, t.kernel, format_number(t.ridge) + "↓" * t.at_smallest_ridge,
             f"{t.log_loss:,.3f}", formatted(t.accuracy, ".1%"), f"{t.images_per_second:,.0f}"]
            for t in sorted(self.tried, key=lambda each: each.log_loss)
        ]  # fmt: skip
        without = [(len(rows) - _SHOWN, "scored"), (len(self.untried), "no time"), (len(self.refused), "refused")]
        rows = rows[:_SHOWN] + [[f" {n:,} more", "", "", "", why, ""] for n, why in without if n > 0]
        header = ["network", "kernel", "ridge", "log loss", "accuracy", "images/s"]
        return Table("Candidates by left-out log loss (* chosen, ↓ smallest ridge in float32)", header, rows)


def scored(
    name: str,
    probabilities: Float[np.ndarray, "n classes"],
    problem: Folds,
    part: Subset,
    chosen: HeldOut | None = None,
) -> ModelScore:
    """Score probabilities of all samples on a subset; chosen: the model to compare with."""
    held = HeldOut(probabilities[part.rows], problem.labels[part.rows], problem.classes)
    loss = -np.log(np.maximum(held.of_label, np.finfo(np.float64).tiny))
    right = held.hits * 1.0
    difference = _mean(right - (chosen or held).hits, part.sets, (-1.0, 1.0))
    return ModelScore(name, held, _mean(right, part.sets, (0.0, 1.0)), float(loss.mean()), difference)


def _mean(values: Float[np.ndarray, " n"], sets: Sets, bounds: tuple[float, float]) -> Estimate:
    """The mean, with its interval by resampling sets."""
    if len(sets) == len(values):
        return bootstrap(values, bounds=bounds)
    sums = np.array([[values[each].sum(), len(each)] for each in sets])
    return bootstrap(sums, lambda means: means[:, 0] / means[:, 1], bounds=bounds)


def percentage(value: Estimate) -> str:
    """A share with its interval, such as "84.0 % (79.4 to 87.9)", without a line break in the interval."""
    interval = (ends(value, ".1f") or "no interval").replace(" ", "\N{NO-BREAK SPACE}")
    return f"{formatted(value.value, '.1%')} ({interval})"


def ends(value: Estimate, spec: str = "+.1f") -> str:
    """The interval in percentage points, such as "−19.3 to +0.8"; "" if there is none."""
    return " to ".join(formatted(100 * end, spec) for end in (value.low, value.high)) if value.has_interval else ""
