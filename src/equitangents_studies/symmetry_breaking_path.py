"""Along a path exp(−tA) into O(3)^d: is VEC of finite width nearer to GAP, or to infinitely wide VEC?

VEC of finite width is symmetric only under O(3)xI, as GAP is, infinitely wide VEC under O(3)^d. The further images move
into O(3)^d, the less can the smaller group help. S-Dist is the squared distance between the mean predictions of two
algorithms: of VEC trained and tested on moved images to GAP on upright images, and to infinitely wide VEC, which is
invariant under the moves.

All statistics are functions of ⟨a, b⟩ = E_x E_θ a(x) · E_θ b(x), estimated without the bias of finite ensembles by
leaving out products of a member with itself. Intervals are Student's over jackknife pseudo-values of members; networks
with the same number are left out together everywhere, so that common fluctuations cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents.extending import check_array
from equitangents.report import palette
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.common.system_runs import COUNTED, SystemSettings, asked_images
from equitangents_studies.data import Dataset
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import Claim, claim, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.systems import System, architecture, inference, path
from equitangents_studies.systems.descent import KernelInference

OTHERS = {"GAP": "GAP of the same width", "VEC": "infinitely wide VEC"}


@dataclass(frozen=True)
class PathSettings(SystemSettings):
    """VEC on images moved to each of the `times` of a path, GAP on upright images, both of `depth` hidden layers and
    `widths` channels, `members` networks of each by NN+ for at most `epochs`; infinitely wide VEC by the NTK with
    `ridge`.
    """

    train_images: int = 50
    test_images: int = 50
    times: tuple[float, ...] = (0.0, 0.5, 1.5)
    widths: tuple[int, ...] = (4, 16)
    depth: int = 2
    members: int = 8
    epochs: int = 40
    ridge: float = 1e-6


@dataclass(frozen=True, eq=False)
class InnerProduct:
    """⟨a, b⟩ of two ensembles, from all members and leaving out one member at a time."""

    whole: float
    without: np.ndarray


class PathResults(Results):
    """`labels` are the classes of test images. Outputs of `vec`, of `gap` and of infinitely wide VEC, the `limit`;
    training accuracies of VEC, `learnt`.
    """

    vec: Keyed[np.ndarray] = by("width time", "member image class", of="VEC.outputs")
    gap: Keyed[np.ndarray] = by("width", "member image class", of="GAP.outputs")
    learnt: Keyed[np.ndarray] = by("width time", "member", of="VEC.learnt")
    limit: np.ndarray = by("", "image class", of="limit.outputs")
    labels: np.ndarray

    def difference(self, other: str, width: int, time: float) -> np.ndarray:
        """Outputs of VEC minus those of `other`, one of OTHERS, member by member."""
        return self.vec[width, time] - (self.gap[width] if other == "GAP" else self.limit)

    def distance(self, other: str, width: int, time: float) -> InnerProduct:
        """S-Dist to one of OTHERS; noise may make it negative."""
        difference = self.difference(other, width, time)
        return product(difference, difference)

    def accuracy_change(self, width: int, first: float, last: float) -> Estimate:
        """Test accuracy of single networks at one time minus that at an earlier one, network by network, in points."""
        ends = [self.right(self.vec[width, t]) for t in (first, last)]
        return t_interval(ends[1] - ends[0], bounds=(-100, 100))

    def accuracy(self, width: int, time: float) -> Estimate:
        """Test accuracy of single networks in percent."""
        return t_interval(self.right(self.vec[width, time]), bounds=(0, 100))

    def right(self, outputs: np.ndarray) -> np.ndarray:
        """Accuracies in percent."""
        return np.asarray(100 * (outputs.argmax(axis=-1) == self.labels).mean(axis=-1))


def product(a: np.ndarray, b: np.ndarray) -> InnerProduct:
    """⟨a, b⟩ of outputs (members, inputs, classes), mean over inputs, sum over classes."""
    inputs, m = a.shape[1], len(a)
    a, b = (np.asarray(check_array("outputs", v, rank=3), np.float64).reshape(m, -1) for v in (a, b))
    with_all = a @ b.T
    own, total = np.diag(with_all), with_all.sum()
    whole = (total - own.sum()) / (m * (m - 1) * inputs)
    rest = total - with_all.sum(axis=0) - with_all.sum(axis=1) + own
    return InnerProduct(float(whole), (rest - own.sum() + own) / ((m - 1) * (m - 2) * inputs))


def over_members(compute: Callable[..., float | np.ndarray], *products: InnerProduct) -> Estimate:
    """A function `compute` of products, with its jackknife interval over members."""
    whole = float(compute(*(p.whole for p in products)))
    without = np.asarray(compute(*(p.without for p in products)))
    m = len(without)
    found = t_interval(m * whole - (m - 1) * without)
    half = (found.high - found.low) / 2
    return Estimate(whole, whole - half, whole + half, found.confidence)


PRESETS = presets(
    PathSettings(),
    desk="train_images=600 test_images=400 times=0.0,0.5,1.0,2.0 widths=16,32,64 members=10 epochs=150 ridge=1e-4",
    paper="data=cifar10 train_images=45000 test_images=10000 pixels=32 times=0.0,0.05,0.1,0.2,0.5,1.0,2.0 "
    "widths=64,128,256,512 depth=8 members=10 epochs=900",
)
_EIGENVALUE_INPUTS = 64


def check_settings(settings: PathSettings, data_dir: Path | None) -> None:
    """Require a path that begins at the identity, enough members for an interval, and several channels."""
    at_least(settings, train_images=20, test_images=2, pixels=3, depth=1, members=5, epochs=1, ridge=0)
    times = settings.times
    check(len(times) >= 2 and times[0] == 0 and list(times) == sorted(set(times)), "times", times, "increasing from 0")
    widths = settings.widths
    increasing = list(widths) == sorted(set(widths)) and len(widths) >= 1
    check(increasing and widths[0] >= 1, "widths", widths, "at least one, increasing from 1 or more")
    images = asked_images(settings, data_dir)
    check(images.train_x.shape[-1] > 1, "data", settings.data, "images of several channels: O(1) has no path")


def measure(settings: PathSettings, folder: RunFolder) -> PathResults:
    """VEC of every width at every time and GAP of every width, one stage each."""
    images = asked_images(settings, folder.data_dir)
    trained = partial(_trained, settings, images)
    found = measured(
        folder,
        Stages("limit", "Infinitely wide VEC", partial(_limit, settings, images)),
        Stages("GAP-{width}", "GAP, width {width}", lambda width, task: trained("GAP", width, 0.0, task)),
        Stages("VEC-{width}-{time#}", "VEC, width {width}, t = {time:g}", partial(trained, "VEC")),
        levels={"width": settings.widths, "time": settings.times},
    )
    return PathResults.read(found, labels=images.test_y)


def _limit(settings: PathSettings, images: Dataset, task: Task) -> Arrays:
    """Predictions of infinitely wide VEC (test images, classes), which are invariant under the moves."""
    system = System("I", architecture("VEC", settings.depth), KernelInference(ridge=settings.ridge))
    outputs = system.fit(images.train_x, images.targets).predict(images.test_x)
    task.step(1, 1)
    return {"outputs": outputs}


def _trained(settings: PathSettings, images: Dataset, name: str, width: int, t: float, task: Task) -> Arrays:
    """Networks of one kind and width trained and tested on images moved to one time."""
    tau = path("O(3)^d", images.train_x.shape[1:], seed=settings.seed)(t)
    learning = inference("NN+", members=settings.members, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    system = System("I", architecture(name, settings.depth, width), learning, settings.seed)
    fitted = system.fit(tau(images.train_x), images.train_y)
    outputs = np.zeros((settings.members, len(images.test_x), images.classes))
    outputs[..., fitted.classes] = fitted.predict_members(tau(images.test_x))
    task.step(1, 1)
    return {"outputs": outputs, "learnt": fitted.trained.accuracies}


FIGURE = "Figure S1"
MEMBERS = "members"


def claims(settings: PathSettings, results: PathResults) -> Sequence[Claim]:
    """Both changes along the path, the change with width, and that of accuracy."""
    return [
        _along(settings, results, "VEC"),
        _along(settings, results, "GAP"),
        _width(settings, results),
        _accuracy(settings, results),
    ]


def counted_widths(settings: PathSettings, results: PathResults) -> tuple[int, ...]:
    """Widths at which VEC fits its training images at all times, as in the source; all widths if none does."""
    learns = lambda w: min(results.learnt[w, t].mean() for t in settings.times) >= COUNTED
    return tuple(w for w in settings.widths if learns(w)) or settings.widths


def change(results: PathResults, other: str, widths: Sequence[int], times: Sequence[float]) -> Estimate:
    """S-Dist at the path's end minus that at its beginning, mean over widths."""
    ends = [results.distance(other, w, t) for t in (times[-1], times[0]) for w in widths]
    return over_members(lambda *found: _halves(found), *ends)


def width_change(results: PathResults, widths: Sequence[int], times: Sequence[float]) -> Estimate:
    """S-Dist to infinitely wide VEC at the smallest width minus that at the largest, mean over times."""
    ends = [results.distance("VEC", w, t) for w in (widths[0], widths[-1]) for t in times]
    return over_members(lambda *found: _halves(found), *ends)


def _halves(found: Sequence[float | np.ndarray]) -> float | np.ndarray:
    """Mean of the first half of the entries minus that of the second half."""
    half = len(found) // 2
    return sum(found[:half]) / half - sum(found[half:]) / half


_ALONG = {
    "VEC": "VEC of finite width comes nearer to infinitely wide VEC along the path",
    "GAP": "VEC of finite width goes away from GAP of the same width along the path",
}


def _along(settings: PathSettings, results: PathResults, other: str) -> Claim:
    counted, times = counted_widths(settings, results), settings.times
    e = change(results, other, counted, times)
    at_least, at_most = (-math.inf, 0.0) if other == "VEC" else (0.0, math.inf)
    return claim(
        _ALONG[other],
        {f"{w} channels": change(results, other, [w], times) for w in settings.widths},
        measure=f"S-Dist to {OTHERS[other]} at t = {times[-1]:g} minus that at t = 0, without the bias of finite "
        f"ensembles, mean over widths at which VEC reaches {100 * COUNTED:.0f} % training accuracy at all t, as the "
        "source counts runs.",
        covers=MEMBERS, by=theirs(THEIRS, FIGURE),
        aggregate=(f"the mean over {', '.join(map(str, counted))} channels", e),
        at_least=at_least, at_most=at_most,
    )  # fmt: skip


def _width(settings: PathSettings, results: PathResults) -> Claim:
    s, e = settings, width_change(results, settings.widths, settings.times)
    return claim(
        "The distance of VEC of finite width to its limit falls with width",
        {f"t = {t:g}": width_change(results, s.widths, [t]) for t in s.times},
        measure=f"S-Dist to infinitely wide VEC at {s.widths[0]} channels minus that at {s.widths[-1]}.",
        covers=MEMBERS, at_least=0,
        by=theirs(THEIRS, FIGURE, "it falls from 64 to 512 channels"),
        aggregate=("the mean over times", e),
    )  # fmt: skip


def _accuracy(settings: PathSettings, results: PathResults) -> Claim:
    s = settings
    numbers = {f"{w} channels": results.accuracy_change(w, s.times[0], s.times[-1]) for w in s.widths}
    return claim(
        "Accuracy of single networks falls along the path",
        numbers,
        measure=f"Test accuracy of single VEC networks at t = {s.times[-1]:g} minus that at t = 0.",
        covers=MEMBERS, at_most=0, unit="percentage points",
        by=theirs(THEIRS, "appendix E", "decays monotonically along t and n"),
    )  # fmt: skip


def distance(results: PathResults, other: str, width: int, time: float) -> Estimate:
    """S-Dist to one of OTHERS with its interval over members."""
    return over_members(lambda d: d, results.distance(other, width, time))


def present(settings: PathSettings, results: PathResults, folder: RunFolder) -> list[Shown]:
    """S-Dist and accuracy against the place on the path."""
    with drawing.panels(
        folder,
        "path",
        titles=(*(f"S-Dist to {title}" for title in OTHERS.values()), "test accuracy, %"),
        xlabel="t, along exp(−tA) into O(3)^d",
        caption=(
            "S-Dist of VEC of finite width, without the bias of finite ensembles, and test accuracy of "
            "single networks, with 95 % intervals over members. Dotted: GAP of that width on images as "
            "they are; dashed: infinitely wide VEC."
        ),
        alt="S-Dist and accuracy against the place on the path",
    ) as drawn:
        for width, colour in drawing.shades_of(settings.widths):
            for axes, other in zip(drawn, OTHERS, strict=False):
                found = [drawing.drawable(distance(results, other, width, t)) for t in settings.times]
                drawing.estimates(axes, settings.times, found, colour, label=f"width {width}")
            right = [drawing.drawable(results.accuracy(width, t)) for t in settings.times]
            drawing.estimates(drawn[2], settings.times, right, colour)
            drawn[2].axhline(results.right(results.gap[width]).mean(), color=colour, lw=0.9, ls=":")
        for axes in (drawn[0], drawn[1]):
            axes.axhline(0, color=palette.MUTED.light, lw=0.8)
        drawn[2].axhline(float(results.right(results.limit)), color=palette.MUTED.light, lw=0.9, ls=(0, (4, 2)))
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
