"""What was tried and what was chosen, as data, and as tables of labels and numbers; predictions of left-out samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.fit.assessing import Part, Problem, Sets
from equitangents.inference.probabilities import fitted_temperature
from equitangents.report import Table
from equitangents.report.render import text_of
from equitangents.statistics import Estimate, bootstrap
from equitangents.statistics.student import binomial_ends

_COLUMNS = ["network", "kernel", "ridge", "log loss", "accuracy", "per s"]
FAST = 20.0  # images a second
_SHOWN = 20  # candidates of a table
_BINS = 10
ACCURACY = "Accuracy of left-out samples (95 %)"


@dataclass(frozen=True)
class HeldOut:
    """Left-out samples: probabilities (N, K), their labels as indices of K `classes`.

    Of a fitted model probabilities are softmax(μ/T) of predictions without the sample, T the temperature of their
    smallest log loss, whether or not the model itself is calibrated: one number fitted to all samples, so the
    calibration error is slightly small.
    """

    probabilities: Float[np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...]

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
    def of(model: InfiniteEnsembleClassifier) -> HeldOut:
        """What a fitted classifier says of each sample when it is left out.

        Raises InvalidArgumentError for labels at positions, and what `leave_one_out_` raises.
        """
        if model.positions_:
            raise InvalidArgumentError("model", model.positions_, "one label per sample", verb="has labels at")
        left = model.leave_one_out_
        outputs = left.outputs.predictions
        labels = np.argmax(outputs + left.outputs.residuals, axis=1)
        temperature = fitted_temperature(outputs, outputs + left.outputs.residuals)
        probabilities = scipy.special.softmax(outputs / temperature, axis=1)
        return HeldOut(probabilities, labels, tuple(map(str, model.classes_)))

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


@dataclass(frozen=True)
class Tried:
    """A candidate with one of its kernels, "ntk" or "nngp": the best ridge, and scores of left-out samples with it.

    group: whose copies are trained on, "" without. log_loss: a mean over classes. seconds: of the network's kernels,
    both together. images_a_second: how many it predicts. ends: whether the ridge is the smallest that the kernel's
    precision allows.
    """

    name: str
    group: str
    kernel: str
    precision: str
    ridge: float
    log_loss: float
    accuracy: float
    seconds: float
    images_a_second: float
    ends: bool


@dataclass(frozen=True, eq=False)
class Scored:
    """Predictions of every sample by a model that was made, and chosen, without it and its fold.

    accuracy: with its 95 % interval over sets of samples that leave together. log_loss: a mean over samples.
    ahead: how much accuracy it has above the chosen model, of the same samples, with its 95 % interval.
    """

    name: str
    held: HeldOut
    accuracy: Estimate
    log_loss: float
    ahead: Estimate


@dataclass(frozen=True)
class Turned:
    """Copies turned by `angle` degrees: the share that is right, and the mean probability of the predicted class."""

    angle: float
    copies: int
    accuracy: Estimate
    confidence: float


@dataclass(frozen=True)
class Grown:
    """Accuracy on left-out samples after training on `samples` others (a mean over folds)."""

    samples: int
    accuracy: Estimate


@dataclass(frozen=True, eq=False)
class Choice:
    """What `auto` gives.

    rows: samples that are scored, all but those of the fold by which candidates were ordered. turned: what turning
    changes. curve: how accuracy grows with samples.
    model: the chosen classifier, calibrated and fitted to all samples. tried: all candidates with a score, in the order
    in which they were tried; chosen: the number of the best in it. score: the chosen one's, by folds on which nothing
    was chosen; others: of baselines on the same folds. untried: candidates that did not fit into the time. refused:
    names and reasons of those without a score. uncompared: baselines that did not fit into the time. folds, sets: how
    many there are; sets is None where each sample leaves alone. near_duplicates: pairs of nearly equal images that do
    not leave together (`near_duplicates`), by which scores are too good. interrupted: whether Ctrl-C ended the search.
    """

    model: InfiniteEnsembleClassifier
    tried: tuple[Tried, ...]
    chosen: int
    score: Scored
    others: tuple[Scored, ...]
    rows: Int[np.ndarray, " scored"]
    untried: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    uncompared: tuple[str, ...]
    folds: int
    sets: int | None
    near_duplicates: tuple[tuple[int, int], ...]
    turned: tuple[Turned, ...]
    curve: tuple[Grown, ...]
    interrupted: bool

    @property
    def doubled(self) -> float | None:
        """The accuracy expected of twice the samples, where the curve says it.

        The error is taken to fall by the ratio by which it fell from half of them, e(2m) = e(m)²/e(m/2).
        """
        if len(self.curve) < 2:
            return None
        half, whole = (1 - each.accuracy.value for each in self.curve[-2:])
        return 1 - whole**2 / half if 0 < whole <= half else None

    @property
    def best(self) -> Tried:
        """The candidate that was chosen, with its scores."""
        return self.tried[self.chosen]

    @property
    def best_fast(self) -> Tried | None:
        """The best that predicts 20 images a second or more; None where there is none."""
        fast = (each for each in self.tried if each.images_a_second >= FAST)
        return min(fast, key=lambda each: each.log_loss, default=None)

    def __str__(self) -> str:
        return text_of(self.scores, self.candidates)

    @property
    def scores(self) -> Table:
        """The chosen model and the baselines on samples of folds that nothing was chosen on."""
        left = "each alone" if self.sets is None else f"{self.sets:,} sets"
        rows = [
            [m.name, interval(m.accuracy), f"{m.log_loss:.3f}", f"{m.held.calibration_error():.3f}", _ends(m.ahead)]
            for m in (self.score, *self.others)
        ]
        rows[0][-1] = ""  # that all are compared with
        rows += [[name, "no time", "", "", ""] for name in self.uncompared]
        header = ["model", "accuracy (95 %)", "log loss", "calibration", "ahead (95 %)"]
        return Table(f"{self.folds} folds, samples left out {left}", header, rows)

    @property
    def turning(self) -> Table:
        """Accuracy and confidence at each angle."""
        rows = [[f"{t.angle:.0f}°", f"{t.copies:,}", interval(t.accuracy), f"{t.confidence:.3f}"] for t in self.turned]
        header = ["angle", "images", "accuracy (95 %)", "mean probability"]
        return Table("left-out images turned by angles outside of the group", header, rows)

    @property
    def candidates(self) -> Table:
        """What was tried, the best first, by left-out samples that it was chosen by."""
        order = sorted(self.tried, key=lambda each: each.log_loss)
        rows = [
            [" *"[t is self.best] + named(t.name, t.group), t.kernel, f"{t.ridge:.0e}" + "↓" * t.ends,
             f"{t.log_loss:,.3f}", f"{t.accuracy:.1%}", f"{t.images_a_second:,.0f}"]
            for t in order[:_SHOWN]
        ]  # fmt: skip
        rows += [[" …"] + [""] * 5] * (len(order) > _SHOWN)
        rows += [[" " + name, "", "", "", "no time", ""] for name in self.untried]
        rows += [[" " + name, "", "", "", "refused", ""] for name, _ in self.refused]
        return Table("candidates by left-out log loss (* chosen, ↓ smallest ridge in float32)", _COLUMNS, rows)


def scored(
    name: str,
    probabilities: Float[np.ndarray, "n classes"],
    problem: Problem,
    part: Part,
    chosen: HeldOut | None = None,
) -> Scored:
    """Scores of probabilities of all samples in a part; chosen: those of the model that it is compared with."""
    held = HeldOut(probabilities[part.rows], problem.labels[part.rows], problem.classes)
    loss = -np.log(np.maximum(held.of_label, np.finfo(np.float64).tiny))
    right = held.hits * 1.0
    ahead = _mean(right - (chosen or held).hits, part.sets, (-1.0, 1.0))
    return Scored(name, held, _mean(right, part.sets, (0.0, 1.0)), float(loss.mean()), ahead)


def _mean(values: Float[np.ndarray, " n"], sets: Sets, bounds: tuple[float, float]) -> Estimate:
    """The mean with its interval over sets, each with the sum of its values and their number."""
    if len(sets) == len(values):
        return bootstrap(values, bounds=bounds)
    sums = np.array([[values[each].sum(), len(each)] for each in sets])
    return bootstrap(sums, lambda means: means[:, 0] / means[:, 1], bounds=bounds)


def interval(value: Estimate) -> str:
    """Such as "84.0% (79.4 to 87.9)"."""
    ends = f" ({100 * value.low:.1f} to {100 * value.high:.1f})" if value.has_interval else ""
    return f"{value.value:.1%}{ends}"


def _ends(value: Estimate) -> str:
    return f"{100 * value.low:+.1f} to {100 * value.high:+.1f}" if value.has_interval else ""


def named(name: str, group: str) -> str:
    """A candidate's name with that of the group, "" for none."""
    return f"{name}, {group}" if group else name
