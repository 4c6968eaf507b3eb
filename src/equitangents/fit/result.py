"""What was tried and what was chosen, as data; `Choice` prints as two tables."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.held_out_page import HeldOut
from equitangents.fit.left_out import Sets
from equitangents.formatting import duration
from equitangents.report import Section, Table
from equitangents.statistics import Estimate, bootstrap

_WIDTH = 100  # of tables


@dataclass(frozen=True)
class Tried:
    """A candidate with one of its kernels, "ntk" or "nngp": the best ridge, and scores of left-out samples with it.

    log_loss: a mean over classes. ends: whether the ridge is the smallest that the kernel's precision allows. seconds:
    of the network's kernels, both together.
    """

    name: str
    kernel: str
    ridge: float
    log_loss: float
    accuracy: float
    seconds: float
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

    @property
    def calibration_error(self) -> float:
        """How far the probability of the predicted class and the share that is right differ (`HeldOut`)."""
        return self.held.calibration_error()

    @property
    def is_ahead(self) -> bool:
        """Whether it is shown to be more accurate than the chosen model."""
        return self.ahead.has_interval and self.ahead.low > 0


@dataclass(frozen=True, eq=False)
class Choice:
    """What `auto` gives.

    model: the chosen classifier, calibrated and fitted to all samples. tried: all candidates with a score, in the order
    in which they were tried; chosen: the number of the best in it. score: the chosen one's, by folds on which nothing
    was chosen; others: of baselines on the same folds. untried: candidates that did not fit into the time. refused:
    names and reasons of those without a score. uncompared: baselines that did not fit into the time. folds, sets: how
    many there are; sets is None where each sample leaves alone. interrupted: whether Ctrl-C ended the search.
    """

    model: InfiniteEnsembleClassifier
    tried: tuple[Tried, ...]
    chosen: int
    score: Scored
    others: tuple[Scored, ...]
    untried: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    uncompared: tuple[str, ...]
    folds: int
    sets: int | None
    seconds: float
    interrupted: bool

    @property
    def best(self) -> Tried:
        """The candidate that was chosen, with its scores."""
        return self.tried[self.chosen]

    def __str__(self) -> str:
        return self.scores() + self.candidates()

    def scores(self) -> str:
        """The table of the chosen model and the baselines on samples of folds that nothing was chosen on."""
        return _text(self._scores)

    @property
    def section(self) -> Section:
        """The table of scores as a section of a page."""
        return Section("Beside other models", shown=[self._scores])

    @property
    def _scores(self) -> Table:
        left = "each alone" if self.sets is None else f"{self.sets:,} sets"
        rows = [
            [each.name, _interval(each.accuracy), f"{each.log_loss:.3f}", f"{each.calibration_error:.3f}",
             "" if each is self.score else _signed(each.ahead)]
            for each in (self.score, *self.others)
        ]  # fmt: skip
        rows += [[name, "no time", "", "", ""] for name in self.uncompared]
        header = ["model", "accuracy (95 %)", "log loss", "calibration error", "ahead of chosen"]
        return Table(f"{self.folds} folds, samples left out {left}", header, rows)

    def candidates(self) -> str:
        """The table of what was tried, the best first, by left-out samples that it was chosen by."""
        order = sorted(range(len(self.tried)), key=lambda i: (self.tried[i].log_loss, i))
        rows = [
            [("* " if i == self.chosen else "  ") + each.name, each.kernel, f"{each.ridge:.0e}" + "↓" * each.ends,
             f"{each.log_loss:.3f}", f"{each.accuracy:.1%}", duration(each.seconds)]
            for i, each in ((i, self.tried[i]) for i in order)
        ]  # fmt: skip
        rows += [["  " + name, "", "", "", "", "no time"] for name in self.untried]
        rows += [["  " + name, "", "", "", "", "refused"] for name, _ in self.refused]
        title = "candidates by left-out samples (* chosen, ↓ smallest ridge of the precision)"
        return _text(Table(title, ["network", "kernel", "ridge", "log loss", "accuracy", "kernels"], rows))


def scored(
    name: str,
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " n"],
    classes: tuple[str, ...],
    sets: Sets,
    chosen: HeldOut | None = None,
) -> Scored:
    """Scores of probabilities of samples that were held out; chosen: those of the model that it is compared with."""
    said = probabilities.argmax(axis=1)
    held = HeldOut(probabilities, labels, said, classes, tuple(f"sample {i}" for i in range(len(labels))), 1.0)
    loss = -np.log(np.maximum(held.of_label, np.finfo(np.float64).tiny))
    beyond = held.hits * 1.0 - (held if chosen is None else chosen).hits
    return Scored(
        name, held, _mean(held.hits * 1.0, sets, (0.0, 1.0)), float(loss.mean()), _mean(beyond, sets, (-1.0, 1.0))
    )


def _mean(values: Float[np.ndarray, " n"], sets: Sets, bounds: tuple[float, float]) -> Estimate:
    """The mean with its interval over sets, each with the sum of its values and their number."""
    if len(sets) == len(values):
        return bootstrap(values, bounds=bounds)
    sums = np.array([[values[each].sum(), len(each)] for each in sets])
    return bootstrap(sums, lambda means: means[:, 0] / means[:, 1], bounds=bounds)


def _interval(value: Estimate) -> str:
    ends = f" ({value.low:.1%} to {value.high:.1%})" if value.has_interval else ""
    return f"{value.value:.1%}{ends}"


def _signed(value: Estimate) -> str:
    ends = f" ({100 * value.low:+.1f} to {100 * value.high:+.1f})" if value.has_interval else ""
    return f"{100 * value.value:+.1f}{ends}"


def _text(shown: Table) -> str:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(*shown.header, title=shown.caption, title_justify="left", title_style="", box=SIMPLE, pad_edge=False)
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in shown.rows:
        grid.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=_WIDTH, color_system=None, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip()) + "\n"
