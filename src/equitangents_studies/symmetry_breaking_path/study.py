"""Along a path exp(−tA) into O(3)^d: is VEC of finite width nearer to GAP, or to infinitely wide VEC?

VEC of finite width is symmetric under O(3)xI alone, as GAP is, infinitely wide VEC under O(3)^d. Images that are moved
further into O(3)^d lose what the smaller group is good for. Measured is S-Dist, the squared distance between the mean
predictions of two algorithms, without the bias of finite ensembles and with it, as the source has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.statistics import Estimate, shared_level
from equitangents_studies.common.system_images import SystemImages, asked_images
from equitangents_studies.framework.citations import SYNERGY_AND_SYMMETRY
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.systems import KernelInference, SDist, System, architecture, inference, path, s_dist

NOISE = 0.1  # the share of a plain estimate from which on its noise matters
STATED = "figure S1 of arXiv 2207.04612, as we read it"
OTHERS = {"GAP": "GAP of the same width", "VEC": "infinitely wide VEC"}


@dataclass(frozen=True)
class Settings:
    """`data` as in `symmetry-groups`: "auto", "textures", "digits" or a data set. `train_images` and `test_images` of
    `pixels` × `pixels`, moved to each of the `times` of a path; VEC and GAP of `depth` hidden layers and `widths`
    channels, `members` networks of each by NN+ for at most `epochs`; infinitely wide VEC by the NTK with `ridge`.
    """

    data: str = "auto"
    train_images: int = 50
    test_images: int = 50
    pixels: int = 8
    times: tuple[float, ...] = (0.0, 0.5, 1.5)
    widths: tuple[int, ...] = (4, 16)
    depth: int = 2
    members: int = 8
    epochs: int = 40
    ridge: float = 1e-6
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        train_images=60, test_images=200, pixels=16, times=(0.0, 0.25, 0.5, 1.0, 2.0), widths=(8, 16, 32), depth=3,
        members=10, epochs=300,
    ),
    "paper": Settings(
        data="cifar10", train_images=45000, test_images=10000, pixels=32, times=(0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
        widths=(64, 128, 256, 512), depth=8, members=10, epochs=900,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """`source` names the data. By (width, time): outputs of `vec` and `gap` (members, test images, classes) and their
    training accuracies `learnt` (2, members); by time the `limit` (test images, classes) of infinitely wide VEC.
    """

    source: str
    vec: dict[tuple[int, float], np.ndarray]
    gap: dict[tuple[int, float], np.ndarray]
    learnt: dict[tuple[int, float], np.ndarray]
    limit: dict[float, np.ndarray]


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A path that begins at the identity, members enough for an interval, channels that can be rotated."""
    at_least(settings, train_images=20, test_images=2, pixels=3, depth=1, members=5, epochs=1, ridge=0)
    times = settings.times
    check(len(times) >= 2 and times[0] == 0 and list(times) == sorted(set(times)), "times", times, "increasing from 0")
    check(len(settings.widths) >= 1 and min(settings.widths) >= 1, "widths", settings.widths, "at least one, from 1 on")
    images = asked_images(settings, data_dir)
    check(images.train_x.shape[-1] > 1, "data", settings.data, "images of several channels: O(1) has no path")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every width at every time, one stage each."""
    images = asked_images(settings, folder.data_dir)
    work: dict[Any, Stage] = {"limit": Stage("limit", "Infinitely wide VEC", partial(_limit, settings, images))}
    for width in settings.widths:
        for i, t in enumerate(settings.times):
            title, compute = f"Width {width}, t = {t:g}", partial(_pair, width, t, settings, images)
            work[width, t] = Stage(f"width-{width}-{i}", title, compute)
    found = folder.stages(work)
    limit = found.pop("limit")["outputs"]
    vec, gap, learnt = ({at: arrays[of] for at, arrays in found.items()} for of in ("vec", "gap", "learnt"))
    return Results(images.name, vec, gap, learnt, dict(zip(settings.times, limit, strict=True)))


def _moved(settings: Settings, images: SystemImages, t: float) -> tuple[np.ndarray, np.ndarray]:
    tau = path("O(3)^d", images.train_x.shape[1:], seed=settings.seed)(t)
    return tau(images.train_x), tau(images.test_x)


def _limit(settings: Settings, images: SystemImages, task: Task) -> Arrays:
    """Predictions of infinitely wide VEC at every time, (times, test images, classes)."""
    outputs = []
    for i, t in enumerate(settings.times):
        x, test = _moved(settings, images, t)
        system = System("I", architecture("VEC", settings.depth), KernelInference(ridge=settings.ridge))
        outputs.append(system.fit(x, images.targets).predict(test))
        task.step(i + 1, len(settings.times))
    return {"outputs": np.stack(outputs)}


def _pair(width: int, t: float, settings: Settings, images: SystemImages, task: Task) -> Arrays:
    """VEC and GAP of one width trained on images moved to one time."""
    x, test = _moved(settings, images, t)
    learning = inference("NN+", members=settings.members, epochs=settings.epochs)
    arrays: Arrays = {}
    accuracies = []
    for i, name in enumerate(("VEC", "GAP")):
        fitted = System("I", architecture(name, settings.depth, width), learning, settings.seed).fit(x, images.train_y)
        outputs = np.zeros((settings.members, len(test), images.classes))
        outputs[..., fitted.classes] = fitted.predict_members(test)
        arrays[name.lower()] = outputs
        accuracies.append(fitted.trained.accuracies)
        task.step(i + 1, 2)
    return arrays | {"learnt": np.stack(accuracies)}


def measured(results: Results, other: str, width: int, t: float, level: float = 0.95) -> SDist:
    """S-Dist of VEC of this width to one of OTHERS."""
    neighbour = results.gap[width, t] if other == "GAP" else results.limit[t]
    return s_dist(results.vec[width, t], neighbour, confidence=level)


def distance(results: Results, other: str, width: int, t: float, level: float = 0.95) -> Estimate:
    """The distance without bias; below 0, as its interval may be, where noise hides it."""
    return measured(results, other, width, t, level).corrected


def plain(results: Results, other: str, width: int, t: float) -> float:
    """The distance with the bias of finite ensembles, as equation S16 of the source has it."""
    return measured(results, other, width, t).plain


def shown(results: Results, other: str, width: int, time: float) -> Estimate:
    """S-Dist without bias, its interval cut at 0."""
    found = measured(results, other, width, time)
    return Estimate(found.value, *found.interval)


def everywhere(settings: Settings, of: Callable[..., Estimate]) -> Records:
    """`of(other, width, time)` for every one of them."""
    return Records.over(
        of,
        lambda other, width, time: f"width {width}, t = {time:g}, to {OTHERS[other]}",
        other=tuple(OTHERS),
        width=settings.widths,
        time=settings.times,
    )


def change(results: Results, other: str, width: int, times: Sequence[float], level: float) -> Estimate:
    """S-Dist at the path's end minus that at its beginning; errors add in squares, as those of independent networks."""
    first, last = (distance(results, other, width, t, level) for t in (times[0], times[-1]))
    value = last.value - first.value
    below = math.hypot(last.value - last.low, first.high - first.value)
    above = math.hypot(last.high - last.value, first.value - first.low)
    return Estimate(value, value - below, value + above, level)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Away from GAP, towards the infinite limit; and how much of the plain estimate is noise."""
    level = shared_level(len(settings.widths))
    over = partial(Records.over, words=lambda width: f"width {width}", width=settings.widths)
    moved = lambda other: over(lambda width: change(results, other, width, settings.times, level))
    together = shared_level(len(OTHERS) * len(settings.widths) * len(settings.times))
    noise = everywhere(settings, lambda other, width, time: measured(results, other, width, time, together).noise_share)
    last = settings.times[-1]
    difference = f"S-Dist at t = {last:g} minus that at t = 0, without the bias of finite ensembles."
    return [
        claim(
            "VEC of finite width comes nearer to infinitely wide VEC along the path",
            moved("VEC"), measure=difference, covers="members", at_most=0, source=STATED,
            holds="What VEC of finite width had ahead of its limit is lost when the smaller symmetry is of no use.",
            fails="At this size the distance to infinitely wide VEC grows along the path.",
            undecided="The change of the distance is within its errors: take more members, or more training images.",
        ),
        claim(
            "VEC of finite width goes away from GAP of the same width along the path",
            moved("GAP"), measure=difference, covers="members", at_least=0, source=STATED,
            holds="Shared symmetry keeps the two alike, and breaking it parts them.",
            fails="At this size the two come nearer to one another along the path.",
            undecided="The change of the distance is within its errors: take more members, or more training images.",
        ),
        claim(
            f"More than {100 * NOISE:g} % of the plain estimate of S-Dist is noise of the members, everywhere",
            noise.times(100), measure="Share of S-Dist as equation S16 has it that its correction takes out.",
            covers="members", at_least=100 * NOISE, unit="%", source=f"our question; {100 * NOISE:g} % is our choice",
            holds="Read the corrected numbers: with so few members the plain ones tell noise for distance.",
            fails="With so many members the plain estimate will do at some of these places, where distances are large.",
            undecided="More members would tell how much of the plain estimate is noise.",
        ),
    ]  # fmt: skip


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
