"""VEC against width: does it lose its advantage over its infinite limit, and how much accuracy do rotations cost?

VEC of finite width is symmetric only under O(3)xI, infinitely wide VEC under O(3)^d. Networks of finite width can use
structure that a rotation of the channels at every position destroys; the wider, the less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import fdtri

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, exactly, no_interval, t_interval
from equitangents_studies.common.system_runs import (
    SystemSettings,
    by_key,
    counted_runs,
    counting,
    draw_accuracies,
    repeated_images,
)
from equitangents_studies.data import Dataset
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import Claim, cell, claim, exact, ours, proved, table, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.systems import architecture, inference
from equitangents_studies.systems.descent import GradientInference

GROUPS = ("I", "O(3)^d")
INFERENCES = ("NN", "NN+")


@dataclass(frozen=True)
class VecWidthSettings(SystemSettings):
    """VEC of `depth` hidden layers and each of `widths` (powers of 2), `runs` networks each, on `train_images` and
    `test_images` of its own, averaged down to `pixels`, for at most `epochs`; a width counts if at least `needed` of
    its runs do. `ridge`: of the NTK, relative to the mean diagonal.
    """

    train_images: int = 80
    test_images: int = 200
    depth: int = 2
    widths: tuple[int, ...] = (16, 32, 64)
    runs: int = 4
    needed: int = 3
    epochs: int = 300
    ridge: float = 1e-4


class VecWidthResults(Results):
    """Accuracies of runs: `best` and `last` on test images along training, `learnt` on training images; `limit` of the
    NTK, `draws` of single infinitely wide networks.
    """

    widths: tuple[int, ...]
    needed: int
    best: Keyed[np.ndarray] = by("inference group", "width run")
    last: Keyed[np.ndarray] = by("inference group", "width run")
    learnt: Keyed[np.ndarray] = by("inference group", "width run")
    limit: Keyed[np.ndarray] = by("group", "run", of="mean")
    draws: Keyed[np.ndarray] = by("group", "run draw")

    def counted(self, inference: str, group: str, width: int) -> np.ndarray:
        """Accuracies of runs in percent; NaN for runs that do not count."""
        i, key = self.widths.index(width), (inference, group)
        return counting(self.best[key][i], self.learnt[key][i])

    def successful(self, inference: str, group: str, width: int) -> int:
        """Number of runs that count."""
        return int(np.isfinite(self.counted(inference, group, width)).sum())

    def accuracy(self, inference: str, group: str, width: int) -> Estimate:
        """Mean accuracy over runs that count, in percent; NaN if they are too few."""
        return self._mean(self.counted(inference, group, width), bounds=(0, 100))

    def wide(self, group: str) -> Estimate:
        """Accuracy of the NTK in percent."""
        return t_interval(100 * self.limit[group], bounds=(0, 100))

    def cost(self, inference: str, width: int) -> Estimate:
        """Accuracy on upright minus rotated images, run by run, in percentage points."""
        return self._mean(self._cost(inference, width))

    def mean_cost(self) -> Estimate:
        """Mean `cost` over all inferences and widths at which enough runs count."""
        every = [(how, w) for how in INFERENCES for w in self.widths if math.isfinite(self.cost(how, w).value)]
        return self._over_cells([self._cost(how, w) for how, w in every])

    def ahead(self, inference: str, group: str, width: int, of: Literal["mean", "draws"] = "mean") -> Estimate:
        """Accuracy of networks minus that of the NTK, or of single infinitely wide networks."""
        return self._mean(self._ahead(inference, group, width, of))

    def mean_of(self, cells: Sequence[tuple[str, int]], group: str, of: Literal["mean", "draws"]) -> Estimate:
        """The mean of `ahead` over (inference, width), where enough runs count."""
        known = [(how, w) for how, w in cells if math.isfinite(self.ahead(how, group, w, of).value)]
        return self._over_cells([self._ahead(how, group, w, of) for how, w in known])

    def single(self, group: str) -> Estimate:
        """Accuracy of single draws in percent, with its interval over runs."""
        return t_interval(100 * self.draws[group].mean(axis=1), bounds=(0, 100))

    def falls(self, inference: str, width: int, level: float = 0.95) -> Estimate:
        """Accuracy at this width minus that at the largest, on upright images."""
        last = self.counted(inference, "I", self.widths[-1])
        return self._mean(self.counted(inference, "I", width) - last, level)

    def fluctuation(self) -> Estimate:
        """Standard deviation of the accuracy over runs at the smallest width, over that at all wider ones.

        All runs enter. At each width the mean of every kind of network and of every run (whose images all kinds share)
        is subtracted. The interval is that of a ratio of normal variances.
        """
        kinds = [(how, group) for how in INFERENCES for group in GROUPS]
        table = 100 * np.array([self.best[key] for key in kinds])  # (kinds, widths, runs)
        k, widths, r = table.shape
        off = table - table.mean(axis=2, keepdims=True) - table.mean(axis=0) + table.mean(axis=(0, 2))[:, None]
        free = (k - 1) * (r - 1)
        squares = (off**2).sum(axis=(0, 2)) / free
        others = squares[1:].mean()
        if not others > 1e-12:  # rounding
            return no_interval(math.nan)
        ratio = squares[0] / others
        high, low = (float(fdtri(free, (widths - 1) * free, q)) for q in (0.975, 0.025))
        return Estimate(*(math.sqrt(value) for value in (ratio, ratio / high, ratio / low)))

    def _ahead(self, inference: str, group: str, width: int, of: str) -> np.ndarray:
        """As in the source networks are taken at their best, but for a comparison with single draws at the end."""
        if of == "mean":
            return self.counted(inference, group, width) - 100 * self.limit[group]
        i, key = self.widths.index(width), (inference, group)
        return counting(self.last[key][i], self.learnt[key][i]) - 100 * self.draws[group].mean(axis=1)

    def _over_cells(self, cells: Sequence[np.ndarray]) -> Estimate:
        """Mean over cells (runs,), run by run, of the runs that count in each."""
        if not cells:
            return no_interval(math.nan)
        table = np.array(cells)
        some = np.isfinite(table).any(axis=0)
        return self._mean(np.nanmean(table[:, some], axis=0))

    def _cost(self, inference: str, width: int) -> np.ndarray:
        return self.counted(inference, "I", width) - self.counted(inference, "O(3)^d", width)

    def _mean(self, values: np.ndarray, level: float = 0.95, bounds: tuple[float, float] = (-100, 100)) -> Estimate:
        values = values[np.isfinite(values)]
        if len(values) < self.needed:
            return no_interval(math.nan, level)
        return t_interval(values, level, bounds)


PRESETS = presets(
    VecWidthSettings(),
    desk="train_images=600 test_images=400 widths=16,32,64,128,256 runs=5 needed=4 epochs=600",
    paper="data=cifar10 train_images=45000 test_images=5000 pixels=32 depth=8 widths=8,16,32,64,128,256,512 runs=5 "
    "needed=4 epochs=900",
)
_EIGENVALUE_INPUTS = 64


def check_settings(settings: VecWidthSettings, data_dir: Path | None) -> None:
    """Require widths that double, and enough runs for an interval."""
    s = settings
    at_least(s, train_images=10, test_images=2, pixels=3, depth=1, runs=2, needed=2, epochs=1)
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    check(s.needed <= s.runs, "needed", s.needed, f"at most runs, {s.runs}")
    powers = len(s.widths) >= 2 and list(s.widths) == sorted(set(s.widths)) and all(_is_power(w) for w in s.widths)
    check(powers, "widths", s.widths, "two or more powers of 2, increasing")
    repeated_images(s, data_dir, s.runs)


def _is_power(n: int) -> bool:
    return n >= 1 and n & (n - 1) == 0


def measure(settings: VecWidthSettings, folder: RunFolder) -> VecWidthResults:
    """The NTK, then every width, inference and group, one stage each."""
    s = settings
    images = repeated_images(s, folder.data_dir, s.runs)
    found = measured(
        folder,
        Stages("limit", "Infinite width", partial(_limit, s, images)),
        Stages("{inference}-{width}-{group#}", "Width {width}, {inference}, {group}", partial(_runs, s, images)),
        levels={"width": s.widths, "inference": INFERENCES, "group": GROUPS},
    )
    return VecWidthResults.read(found, widths=s.widths, needed=s.needed)


def _limit(settings: VecWidthSettings, images: list[Dataset], task: Task) -> Arrays:
    """Accuracies of the NTK and of single infinitely wide networks, on the same transformed images as the networks."""
    net = architecture("VEC", settings.depth)
    return draw_accuracies(net, images, GROUPS, settings.ridge, settings.seed, task)


def _runs(settings: VecWidthSettings, images: list[Dataset], how: str, width: int, group: str, task: Task) -> Arrays:
    """Runs of one width: arrays (runs,) by the keys of `counted_runs`."""
    learning = inference(how, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    assert isinstance(learning, GradientInference)
    net = architecture("VEC", settings.depth, width)
    found = by_key([counted_runs(group, net, learning, settings.seed, images, first_alone=group == GROUPS[0])])
    task.step(1, 1)
    return {key: rows[0] for key, rows in found.items()}


FIGURE = "Figure 3"
BEST = {"NN": 64, "NN+": 128}  # the widths past which the source's accuracies fall
STATED = "68, 78, 78, 79, 79 % at 64 channels; 67 % of infinitely wide VEC (45,000 images of 32×32 pixels)"
RUNS = "runs, each with images, a rotation and initial weights of its own"
_POINTS = "percentage points"


def best_width(widths: Sequence[int], how: str) -> int:
    """The trained width nearest to the one past which the source's accuracies fall."""
    return min(widths, key=lambda w: abs(math.log2(w / BEST[how])))


def claims(settings: VecWidthSettings, results: VecWidthResults) -> Sequence[Claim]:
    """The source's claims in its own comparison, and ours, which compare like with like."""
    over_runs = partial(claim, covers=RUNS)
    points = partial(over_runs, unit=_POINTS)
    best = [(how, best_width(results.widths, how)) for how in INFERENCES]
    every = [(how, w) for how in INFERENCES for w in results.widths]
    narrow, *others = results.widths
    label = "{}, {} channels".format
    moved = abs(results.limit["O(3)^d"] - results.limit["I"]).max()
    both, over_widths = "the mean of both inferences", "the mean over widths and inferences"

    def falls(how: str, width: int) -> Claim:
        last, e = results.widths[-1], results.falls(how, width)
        known = BEST[how] in results.widths[:-1]
        return points(
            f"Trained as {how}, accuracy on upright images falls past {BEST[how]} channels",
            {f"{how}, {width} against {last} channels": e if known else no_interval(e.value, e.confidence)},
            measure=f"Mean accuracy at {width} channels minus that at {last}, run by run.",
            at_least=0,
            by=theirs(THEIRS, FIGURE),
        )

    def like(group: str, which: str) -> Claim:
        return points(
            f"Like for like: on {which}, one network of the source’s best width against one infinitely wide network",
            {label(how, w): results.ahead(how, group, w, "draws") for how, w in every},
            measure="Accuracy of single networks after the last epoch minus that of single draws of GP(μ, Σ), the law "
            "of one infinitely wide network after training, on the same images.",
            at_least=0,
            by=ours("our question: the like comparison"),
            aggregate=(both, results.mean_of(best, group, "draws")),
        )

    return [
        *(falls(how, width) for how, width in best),
        points(
            "VEC of the source’s best width predicts better than infinitely wide VEC, the mean of infinitely many "
            "networks",
            {label(how, w): results.ahead(how, "I", w) for how, w in best},
            measure="Accuracy of single networks minus that of the NTK on the same upright images.",
            at_least=0,
            by=theirs(THEIRS, FIGURE, STATED),
            aggregate=(both, results.mean_of(best, "I", "mean")),
        ),
        points(
            "On rotated images infinitely wide VEC, the mean, predicts at least as well as VEC of finite width",
            {label(how, w): results.ahead(how, "O(3)^d", w) for how, w in every},
            measure="Accuracy of single networks minus that of the NTK on the same rotated images, at widths where "
            "enough runs count.",
            at_most=0,
            by=theirs(THEIRS, FIGURE),
            aggregate=(over_widths, results.mean_of(every, "O(3)^d", "mean")),
        ),
        exact(
            "Infinitely wide VEC predicts as well on rotated as on upright images",
            {"the largest of all runs": exactly(100 * float(moved))},
            measure="Difference of the NTK’s accuracies on rotated and upright images.",
            at_most=0.5,
            unit=_POINTS,
            by=proved(THEIRS, "Theorem 4.1 and Figure 3", "equal"),
        ),
        over_runs(
            "Accuracies of the narrowest networks fluctuate most from run to run",
            {f"{narrow} against {', '.join(map(str, others))} channels": results.fluctuation()},
            measure=f"Standard deviation of test accuracies at {narrow} channels over that of all wider networks; the "
            "mean of each kind of network and that of each run, whose images all kinds share, are taken out; all runs "
            "count.",
            at_least=1,
            by=theirs(THEIRS, FIGURE, "large fluctuations at small widths"),
        ),
        like("I", "upright images"),
        like("O(3)^d", "rotated images"),
        points(
            "A rotation of the channels at every position costs VEC of finite width accuracy",
            {label(how, w): results.cost(how, w) for how, w in every},
            measure="Accuracy on upright minus accuracy on rotated images, run by run.",
            at_least=0,
            by=theirs(THEIRS, FIGURE, "with 45,000 images; from about 10,000 on"),
            aggregate=(over_widths, results.mean_cost()),
        ),
    ]


_COLOURS = {"I": palette.BLUE, "O(3)^d": palette.VERMILLION}
_TITLES = {"I": "upright", "O(3)^d": "rotated by O(3)^d"}


def present(settings: VecWidthSettings, results: VecWidthResults, folder: RunFolder) -> list[Shown]:
    """Accuracies against width."""
    return [_figure(results, folder), _table(settings, results)]


def _figure(results: VecWidthResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=INFERENCES,
        xlabel="channels",
        ylabel="test accuracy, %",
        sharey=True,
        caption=(
            "Mean test accuracy of VEC with 95 % intervals over runs that count, at widths with enough of"
            " them. Dashed, with bands: infinitely wide VEC as the NTK, the mean of infinitely many; "
            "dotted: one infinitely wide network, mean of draws from its law on the same images."
        ),
        alt="Accuracy of VEC against width, with and without rotations",
    ) as drawn:
        for axes, how in zip(drawn, INFERENCES, strict=True):
            for k, group in enumerate(GROUPS):
                colour, wide = _COLOURS[group].light, drawing.drawable(results.wide(group))
                values = {w: results.accuracy(how, group, w) for w in results.widths}
                shown = {w: drawing.drawable(e) for w, e in values.items() if np.isfinite(e.value)}
                place = np.array(list(shown)) * 1.04 ** (k - 0.5)
                drawing.estimates(axes, place, list(shown.values()), colour, label=_TITLES[group])
                axes.axhspan(wide.low, wide.high, color=colour, alpha=0.12, lw=0)
                axes.axhline(wide.value, color=colour, lw=0.9, ls=(0, (4, 2)), label=f"NTK, {_TITLES[group]}")
                one = results.single(group).value
                axes.axhline(one, color=colour, lw=0.9, ls=(0, (1, 2)), label=f"one draw, {_TITLES[group]}")
            axes.set_xlim(results.widths[0] * 0.8, results.widths[-1] * 1.25)
            drawing.logarithmic(axes, "x", results.widths, base=2)
            axes.tick_params(colors=palette.MUTED.light)
    return drawn.figure


def _table(s: VecWidthSettings, results: VecWidthResults) -> Table:
    rows: list[list[object]] = []
    for how, group in results.best:
        cells = []
        for w in results.widths:
            e, count = results.accuracy(how, group, w), results.successful(how, group, w)
            number = cell(e) if np.isfinite(e.value) else "–"
            cells.append(f"{number}; {count} of {s.runs}")
        rows.append([f"{how}, {group}", *cells])
    for group in GROUPS:
        rows.append([f"NTK, {group}", *[""] * (len(results.widths) - 1), results.wide(group)])
        rows.append([f"one draw, {group}", *[""] * (len(results.widths) - 1), results.single(group)])
    caption = (
        "Test accuracy in percent by width, in brackets 95 % intervals, and how many runs count; in the last column "
        "that of the NTK and of one draw of GP(μ, Σ), one infinitely wide network."
    )
    return table(caption, ["", *(str(w) for w in results.widths)], rows)


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
