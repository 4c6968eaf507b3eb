"""Which way to an invariant classifier? Accuracy, orbit same predictions and cost of every baseline.

Every baseline trains on upright images and handles the group in its own way. It classifies every element of every
orbit, in and out of distribution.

The recommended baseline is the cheapest that is non-inferior to the best. Let d be a baseline's score minus the best
one's, paired, a mean over inputs for each repetition, and m the tolerated loss: the baseline is non-inferior if the
interval of d's mean over repetitions lies above −m.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from equitangents.statistics import Estimate, binomial_ends, bootstrap, no_interval, shared_level, t_interval
from equitangents_studies import baselines
from equitangents_studies.baselines import BaselineProblem
from equitangents_studies.baselines.baseline import Entry
from equitangents_studies.baselines.networks import TrainedNetworks, cnn, count_multiplications
from equitangents_studies.baselines.registry import group_convolutional
from equitangents_studies.common.images import Chosen, Images, load_images, zero_at_border
from equitangents_studies.common.orbits import orbit_batch, same_predictions
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework.study import Arrays, NamedStage, RunFolder, Task, at_least, check, presets


@dataclass(frozen=True)
class ComparisonSettings(Chosen):
    """`baselines` are names, or "module:Name" of your own. Your own file as `data` has x, y (and x_test, y_test).

    Every repetition has other initial weights, orders of data and, where there are more images than `train_images`,
    other training images. Networks see every training image `epochs` times; `kernel_images` train kernel machines.
    `shrink` are the factors by which channels are divided for ensembles of small networks (empty: none), each of which
    has as many members as one group-convolutional network costs, at most `most_members`. `zero`: the shade of an image
    that becomes 0, as what rotation brings in at the corners: its mean, or its border's median. `tolerated`: the share
    of images, and of orientations, that a cheaper baseline may lose to the best and still be recommended.
    """

    group: Literal["C2", "C4", "C8", "C16", "D4"] = "C4"
    baselines: tuple[str, ...] = (
        "plain", "augmented", "ensemble", "gcnn", "gcnn-ensemble", "canonicalisation", "test-time", "infinite",
        "invariant-kernel",
    )  # fmt: skip
    repetitions: int = 3
    train_images: int | None = 800
    test_images: int | None = 300
    foreign_images: int = 150
    channels: tuple[int, ...] = (8, 16)
    members: int = 16
    group_members: int = 3
    epochs: int = 20
    batch: int = 32
    learning_rate: float = 0.02
    kernel_images: int = 200
    shrink: tuple[int, ...] = (1, 2)
    most_members: int = 32
    zero: Literal["mean", "border"] = "mean"
    tolerated: float = 0.02


# Rotations that resample bring in corners; kernel matrices of 4,800 rows are solved whole, as there are no irreps; and
# ensembles of group-convolutional networks would take 24 min (C8) and 48 min (C16) more.
PRESETS = presets(
    ComparisonSettings(),
    desk="data=fashion_mnist foreign=mnist,cifar10,noise pixels=14 repetitions=5 train_images=10000 "
    "test_images=1000 foreign_images=400 channels=12,16 members=25 group_members=4 epochs=15 kernel_images=1200 "
    "shrink=1,2,4 most_members=64",
    paper="data=fashion_mnist foreign=mnist,cifar10,noise repetitions=5 train_images=none test_images=none "
    "foreign_images=5000 channels=32,64,64 members=100 group_members=10 epochs=30 batch=128 kernel_images=5000 "
    "shrink=1,2,4 most_members=256",
    desk_c8="desk group=C8 kernel_images=600 "
    "baselines=plain,augmented,ensemble,gcnn,gcnn-augmented,canonicalisation,canonicalisation-augmented,test-time,"
    "infinite,invariant-kernel shrink= zero=border",
    desk_c16="desk-c8 group=C16 kernel_images=300",
)


def covers(settings: ComparisonSettings) -> str:
    """What intervals are over."""
    return covered(settings.repetitions, "repetitions")


def small_channels(settings: ComparisonSettings, shrink: int) -> tuple[int, ...]:
    """Channels of the small networks: the large ones' divided by `shrink`, at least one a layer."""
    return tuple(max(1, channels // shrink) for channels in settings.channels)


COSTS = ("parameters", "multiplications", "training_seconds", "inference_seconds")
MEASURES = ("upright", "rotated", "inside", "outside")


@dataclass(frozen=True, eq=False)
class Curve:
    """An ensemble of small networks: labels[set] (sizes, R, |G|, N) of the mean of `sizes` members."""

    sizes: np.ndarray
    labels: dict[str, np.ndarray]
    channels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ComparisonResults:
    """labels[baseline][set] (R, |G|, N) predicted classes; costs[baseline] by name (R,); noise_floor[set] (R, |G|, N).

    `noise_floor` is empty where the action is exact. `left_out` has the reason why a baseline is missing.
    """

    images: Images
    problem: BaselineProblem
    titles: dict[str, str]
    labels: dict[str, dict[str, np.ndarray]]
    costs: dict[str, dict[str, np.ndarray]]
    noise_floor: dict[str, np.ndarray]
    left_out: dict[str, str]
    curves: dict[int, Curve]

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.problem.action.group.order)

    @property
    def foreign(self) -> list[str]:
        """Names of the sets out of distribution."""
        return [name for name in self.images.sets if name != "test"]

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions."""
        return same_predictions(self.problem.action, labels)

    def score(self, labels: dict[str, np.ndarray], measure: str) -> Float[np.ndarray, "... n"]:
        """Score of every repetition and input: accuracy upright or over orbits, agreement on test or foreign sets."""
        if measure == "upright":
            return (labels["test"][..., self.problem.action.group.identity, :] == self.images.test_y).astype(float)
        if measure == "rotated":
            return (labels["test"] == self.images.test_y).mean(axis=-2)
        if measure == "inside":
            return self.agreement(labels["test"])
        return np.concatenate([self.agreement(labels[name]) for name in self.foreign], axis=-1)

    def bounds(self, measure: str) -> tuple[float, float]:
        """Smallest and largest possible score."""
        return (0.0, 1.0) if measure in ("upright", "rotated") else (1.0, float(self.order))

    def estimate(self, labels: dict[str, np.ndarray], measure: str, level: float = 0.95) -> Estimate:
        """The mean score and its interval."""
        return table_mean(self.score(labels, measure), self.bounds(measure), level)

    def difference(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], measure: str, level: float) -> Estimate:
        """The mean of a's score minus b's on the same inputs, in the same repetitions."""
        low, high = self.bounds(measure)
        return table_mean(self.score(a, measure) - self.score(b, measure), (low - high, high - low), level)

    def cost(self, name: str, which: str = "training_seconds") -> float:
        """Cost of a baseline in one repetition: the median, since the first also compiles."""
        return float(np.median(self.costs[name][which]))

    def least(self, labels: dict[str, np.ndarray]) -> float:
        """Orbit same predictions on the worst input of all sets and repetitions."""
        return float(min(self.agreement(y).min() for y in labels.values()))

    def on(self, labels: dict[str, np.ndarray], name: str) -> Estimate:
        """Orbit same predictions on one set."""
        return table_mean(self.agreement(labels[name]), self.bounds("outside"))

    def ahead(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions of a minus those of b on one set, paired."""
        most = self.order - 1.0
        return table_mean(self.agreement(a[name]) - self.agreement(b[name]), (-most, most), level)


def images_of(settings: ComparisonSettings, data_dir: Path | None, repetition: int = 0) -> Images:
    """The images of one repetition, shifted so that the shade named by `zero` is 0."""
    images = load_images(settings, data_dir, draw=repetition)
    return images if settings.zero == "mean" else zero_at_border(images)


def problem_of(settings: ComparisonSettings, images: Images, repetition: int = 0) -> BaselineProblem:
    """The problem that baselines get in one repetition."""
    height, width, channels = images.train_x.shape[1:]
    return BaselineProblem(
        group=settings.group,
        shape=(height, width, channels),
        classes=images.classes,
        seed=settings.seed + repetition,
        channels=settings.channels,
        members=settings.members,
        group_members=settings.group_members,
        epochs=settings.epochs,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        kernel_images=min(settings.kernel_images, len(images.train_x)),
    )


def check_settings(settings: ComparisonSettings, data_dir: Path | None) -> None:
    """Require baselines that can be made, valid sizes, and available images."""
    at_least(settings, repetitions=1, members=2, group_members=2, epochs=1, most_members=1, batch=1, kernel_images=2)
    at_least(settings, foreign_images=2)
    check(len(settings.channels) >= 2, "channels", settings.channels, "a list of at least two")
    check(0 < settings.tolerated < 1, "tolerated", settings.tolerated, "between 0 and 1")
    for name in ("baselines", "foreign"):
        value = getattr(settings, name)
        distinct = len(value) > 0 and len(value) == len(set(value))
        check(distinct, name, value, "a list without repetitions, of at least one")
    check(all(k >= 1 for k in settings.shrink), "shrink", settings.shrink, "a list of numbers of at least 1")
    if settings.pixels is not None:
        check(
            settings.pixels >= 4 and settings.pixels % 2 == 0, "pixels", settings.pixels, "an even number of at least 4"
        )
    entries = [baselines.find(name) for name in settings.baselines]
    images = images_of(settings, data_dir)
    problem = problem_of(settings, images)
    possible = [entry for entry in entries if not entry.unavailable(problem)]
    check(bool(possible), "baselines", settings.baselines, f"a list with one that there is for {settings.group}")
    for entry in possible:
        entry.make(problem)


def measure(settings: ComparisonSettings, folder: RunFolder) -> ComparisonResults:
    """Every baseline in every repetition, each a stage of its own; then ensembles of small networks.

    Baselines are timed, so no two of them run at once.
    """
    images = images_of(settings, folder.data_dir)
    _same_data(folder, images)
    problem = problem_of(settings, images)
    entries = [baselines.find(name) for name in settings.baselines]
    left_out = {entry.name: entry.unavailable(problem) for entry in entries if entry.unavailable(problem)}
    entries = [entry for entry in entries if entry.name not in left_out]
    order = [name for name in ("ensemble", "augmented", entries[0].name) if name in {e.name for e in entries}]
    noise_floor_of = "" if problem.action.exact else order[0]
    found: dict[str, list[Arrays]] = {
        entry.name: [
            folder.stage(
                f"{entry.name}-{r}",
                f"{entry.title}, repetition {r + 1} of {settings.repetitions}",
                partial(_baseline, entry, settings, folder, r, entry.name == noise_floor_of),
            )
            for r in range(settings.repetitions)
        ]
        for entry in entries
    }
    gather = lambda stages, key: np.stack([stage[key] for stage in stages])
    sets = list(images.sets)
    shrink = settings.shrink if "gcnn" in found else ()  # small networks are only compared with it
    affordable = [k for k in shrink if _budget(settings, problem, k)]
    return ComparisonResults(
        images=images,
        problem=problem,
        titles={entry.name: entry.title for entry in entries},
        labels={name: {s: gather(stages, f"labels_{s}") for s in sets} for name, stages in found.items()},
        costs={name: {c: gather(stages, c) for c in COSTS} for name, stages in found.items()},
        noise_floor={s: gather(found[noise_floor_of], f"noise_floor_{s}") for s in sets} if noise_floor_of else {},
        left_out=left_out,
        curves={k: _curve(settings, folder, problem, k, sets) for k in affordable},
    )


def _same_data(folder: RunFolder, images: Images) -> None:
    """Check that a resumed run has the same images: your own file may have changed."""
    parts = [images.train_x, images.train_y, images.test_y, *images.sets.values()]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()
    now = np.frombuffer(digest, np.uint8)
    then = folder.stage("data", "Images", lambda task: {"sha256": now})["sha256"]
    check(np.array_equal(then, now), "data", "changed since the run began", "what it was, or start again with --force")


def _baseline(
    entry: Entry, settings: ComparisonSettings, folder: RunFolder, repetition: int, noise_floor: bool, task: Task
) -> Arrays:
    images = images_of(settings, folder.data_dir, repetition)
    problem = problem_of(settings, images, repetition)
    orbits = {name: orbit_batch(problem.action, x) for name, x in images.sets.items()}
    outcome = baselines.run(entry, problem, images.train_x, images.train_y, orbits)
    shape = (int(problem.action.group.order), -1)
    arrays: Arrays = {f"labels_{name}": y.reshape(shape).astype(np.int16) for name, y in outcome.labels.items()}
    arrays |= {cost: np.array(getattr(outcome, cost)) for cost in COSTS}
    if noise_floor:
        averaged = baselines.AveragedBaseline(outcome.fitted, problem)
        for i, (name, x) in enumerate(orbits.items()):
            scores = np.asarray(averaged.predict(x))
            arrays[f"noise_floor_{name}"] = scores.argmax(axis=1).reshape(shape).astype(np.int16)
            task.step(i + 1, len(orbits))
    return arrays


def _budget(settings: ComparisonSettings, problem: BaselineProblem, shrink: int) -> int:
    """Number of small networks at the cost of one group-convolutional network; 0 if one costs more."""
    each = count_multiplications(cnn(problem, small_channels(settings, shrink)), problem.shape)
    return int(count_multiplications(group_convolutional(problem), problem.shape) // each)


def _curve(
    settings: ComparisonSettings, folder: RunFolder, problem: BaselineProblem, shrink: int, sets: Sequence[str]
) -> Curve:
    channels = small_channels(settings, shrink)
    members = min(_budget(settings, problem, shrink), settings.most_members)
    sizes = sorted({min(2**k, members) for k in range(int(np.ceil(np.log2(members))) + 1)})
    title = f"{members} networks of {' and '.join(map(str, channels))} channels, repetition "
    stages = folder.stages(
        {
            r: NamedStage(
                f"small-{shrink}-{r}",
                f"{title}{r + 1} of {settings.repetitions}",
                partial(_small, settings, folder.data_dir, channels, sizes, r),
            )
            for r in range(settings.repetitions)
        }
    )
    labels = {s: np.stack([stage[f"labels_{s}"] for stage in stages.values()], axis=1) for s in sets}
    return Curve(np.array(sizes), labels, channels)


def _small(
    settings: ComparisonSettings,
    data_dir: Path | None,
    channels: tuple[int, ...],
    sizes: Sequence[int],
    repetition: int,
    task: Task,
) -> Arrays:
    images = images_of(settings, data_dir, repetition)
    problem = replace(problem_of(settings, images, repetition), channels=channels)
    model = TrainedNetworks(cnn(problem), problem, members=sizes[-1], augmented=True)
    model.fit(images.train_x, images.train_y)
    arrays: Arrays = {}
    for name, x in images.sets.items():
        moved = [
            np.stack([p[:m].mean(axis=0).argmax(axis=-1) for m in sizes])
            for p in (
                model.predict_members(np.asarray(problem.action(g, x))) for g in range(problem.action.group.order)
            )
        ]
        arrays[f"labels_{name}"] = np.stack(moved, axis=1).astype(np.int16)
    return arrays


ACCURACY, AGREEMENT = "rotated", "outside"


def good_enough(settings: ComparisonSettings, results: ComparisonResults, measure: str) -> list[str]:
    """The best baseline, and those shown to be worse by at most the tolerated share of the score's range."""
    margin = settings.tolerated * range_of(results, measure)
    best = best_of(results, measure)
    return [name for name in results.labels if name == best or lag(results, measure, name).low > -margin]


def lag(results: ComparisonResults, measure: str, name: str) -> Estimate:
    """The baseline's score minus the best one's, with Student's interval over repetitions if there are several.

    All intervals of a measure hold together. If no input differs, the ends are those of a proportion with no events; if
    all repetitions are equal, the interval is over inputs.
    """
    best = results.labels[best_of(results, measure)]
    differences = results.score(results.labels[name], measure) - results.score(best, measure)  # (R, N)
    level, most = shared_level(len(results.labels) - 1), range_of(results, measure)
    if not differences.any():
        _, end = binomial_ends(0.0, differences.shape[1], level, (0.0, most))
        return Estimate(0.0, -end, end, level)
    if len(differences) < 2:
        return no_interval(float(differences.mean()), level)
    found = t_interval(differences.mean(axis=1), level, (-most, most))
    return found if found.has_interval else bootstrap(differences.mean(axis=0), confidence=level, bounds=(-most, most))


def best_of(results: ComparisonResults, measure: str) -> str:
    """The baseline of the highest score; the cheapest of several."""
    key = lambda name: (results.score(results.labels[name], measure).mean(), -results.cost(name))
    return max(results.labels, key=key)


def range_of(results: ComparisonResults, measure: str) -> float:
    """Range of the measure: 1 for accuracies, |G| for agreement."""
    return results.bounds(measure)[1]
