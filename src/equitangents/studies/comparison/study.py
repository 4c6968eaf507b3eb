"""Which way to an invariant classifier? Accuracy and orbit same predictions of every contender beside what it costs.

Every contender is trained on upright images, one way or another with the group, and asked for the class of every
element of every orbit, in and out of distribution.
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

from equitangents import contenders
from equitangents.contenders import Problem
from equitangents.contenders.kinds import gcnn
from equitangents.contenders.networks import cnn, count_multiplications
from equitangents.contenders.trained import TrainedNetworks
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents.statistics.bootstrap import RESAMPLES, resample
from equitangents.statistics.student import FEWEST
from equitangents.statistics.two_way import table_interval
from equitangents.studies.common.images import Images, load_images
from equitangents.studies.common.orbits import orbit_batch, same_predictions
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import EXACT, Claim, claim
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.records import Records
from equitangents.studies.framework.settings import at_least, check
from equitangents.studies.framework.study import Study

STATED: dict[str, dict[str, tuple[float, float]]] = {  # orbit same predictions out of distribution, and their errors
    "ensemble": {"C4": (3.85, 0.12), "C8": (7.72, 0.34), "C16": (15.24, 0.69)},
    "augmented": {"C4": (3.41, 0.18), "C8": (6.73, 0.24), "C16": (12.77, 0.71)},
    "gcnn": {"C4": (4.0, 0.0), "C8": (7.71, 0.21), "C16": (15.08, 0.34)},
    "canonicalisation": {"C4": (4.0, 0.0), "C8": (7.45, 0.14), "C16": (12.41, 0.85)},
}
_BY_CONSTRUCTION = ("gcnn", "gcnn-ensemble", "canonicalisation", "test-time")
COSTS = ("parameters", "multiplications", "training_seconds", "inference_seconds")
MEASURES = ("upright", "rotated", "inside", "outside")


@dataclass(frozen=True)
class Settings:
    """`data` is "digits", a data set in the data folder, or a file `mine.npz` with x and y (and x_test, y_test).

    `pixels` averages images over areas to pixels × pixels. `contenders` are names, or "module:Name" of one's own.
    Every repetition has other initial weights, orders of data and, where there are more images than `train_images`,
    other training images. Networks see every training image `epochs` times; `kernel_images` train kernel machines.
    `shrink` are the factors by which channels are divided for ensembles of small networks (empty: none), each of which
    has as many members as one group-convolutional network costs, at most `most_members`.
    """

    data: str = "digits"
    foreign: tuple[str, ...] = ("photographs", "noise")
    group: Literal["C2", "C4", "C8", "C16", "D4"] = "C4"
    pixels: int | None = None
    contenders: tuple[str, ...] = (
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
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        pixels=14,
        repetitions=5,
        train_images=10000,
        test_images=1000,
        foreign_images=400,
        channels=(12, 16),
        members=25,
        group_members=4,
        epochs=15,
        kernel_images=1200,
        shrink=(1, 2, 4),
        most_members=64,
    ),
    "paper": Settings(
        data="fashion_mnist",
        foreign=("mnist", "cifar10", "noise"),
        repetitions=5,
        train_images=None,
        test_images=None,
        foreign_images=5000,
        channels=(32, 64, 64),
        members=100,
        group_members=10,
        epochs=30,
        batch=128,
        kernel_images=5000,
        shrink=(1, 2, 4),
        most_members=256,
    ),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """An ensemble of small networks: labels[set] (sizes, R, |G|, N) of the mean of `sizes` members."""

    sizes: np.ndarray
    labels: dict[str, np.ndarray]
    channels: tuple[int, ...]
    multiplications: float


@dataclass(frozen=True, eq=False)
class Results:
    """labels[contender][set] (R, |G|, N) predicted classes; costs[contender] by name (R,); floor[set] (R, |G|, N).

    `floor` is empty where the action is exact. `left_out` says why a contender is missing.
    """

    images: Images
    problem: Problem
    titles: dict[str, str]
    labels: dict[str, dict[str, np.ndarray]]
    costs: dict[str, dict[str, np.ndarray]]
    floor: dict[str, np.ndarray]
    floor_of: str
    left_out: dict[str, str]
    curves: dict[int, Curve]
    gcnn_multiplications: float

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
        """Of every repetition and input: right upright, right over the orbit, agreement in and out of distribution."""
        if measure == "upright":
            return (labels["test"][..., self.problem.action.group.identity, :] == self.images.test_y).astype(float)
        if measure == "rotated":
            return (labels["test"] == self.images.test_y).mean(axis=-2)
        if measure == "inside":
            return self.agreement(labels["test"])
        return np.concatenate([self.agreement(labels[name]) for name in self.foreign], axis=-1)

    def bounds(self, measure: str) -> tuple[float, float]:
        """Between which values a score lies."""
        return (0.0, 1.0) if measure in ("upright", "rotated") else (1.0, float(self.order))

    def estimate(self, labels: dict[str, np.ndarray], measure: str, level: float = 0.95) -> Estimate:
        """The mean score and its interval."""
        return interval(self.score(labels, measure), level, self.bounds(measure))

    def difference(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], measure: str, level: float) -> Estimate:
        """The mean of a's score minus b's on the same inputs, in the same repetitions."""
        low, high = self.bounds(measure)
        return interval(self.score(a, measure) - self.score(b, measure), level, (low - high, high - low))


def interval(table: Float[np.ndarray, "repetitions n"], level: float, bounds: tuple[float, float]) -> Estimate:
    """The mean of a table of scores: over inputs and repetitions, or over inputs alone where there are too few of them.

    So too where all repetitions are alike.
    """
    R, n = table.shape
    if R >= FEWEST and np.ptp(table.mean(axis=1)) > 1e-12:
        low, high = table_interval(table, resample(R, RESAMPLES, 1), resample(n, RESAMPLES, 0), level)
        if np.isfinite(low) and np.isfinite(high):
            return Estimate(float(table.mean()), max(low, bounds[0]), min(high, bounds[1]), level)
    return bootstrap(table.mean(axis=0), level=level, bounds=bounds)


def covers(settings: Settings) -> str:
    """What intervals are over."""
    return "inputs and repetitions" if settings.repetitions >= FEWEST else "inputs"


def problem_of(settings: Settings, images: Images, repetition: int = 0) -> Problem:
    """What contenders are told in one repetition."""
    height, width, channels = images.train_x.shape[1:]
    return Problem(
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


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Contenders that can be found and made, sizes, and images that are there."""
    at_least(settings, repetitions=1, members=2, group_members=2, epochs=1, most_members=1, batch=1, kernel_images=2)
    at_least(settings, foreign_images=2)
    check(len(settings.channels) >= 2, "channels", settings.channels, "a list of at least two")
    for name in ("contenders", "foreign"):
        value = getattr(settings, name)
        distinct = len(value) > 0 and len(value) == len(set(value))
        check(distinct, name, value, "a list without repetitions, of at least one")
    check(all(k >= 1 for k in settings.shrink), "shrink", settings.shrink, "a list of numbers of at least 1")
    if settings.pixels is not None:
        check(
            settings.pixels >= 4 and settings.pixels % 2 == 0, "pixels", settings.pixels, "an even number of at least 4"
        )
    entries = [contenders.find(name) for name in settings.contenders]
    images = load_images(settings, data_dir)
    problem = problem_of(settings, images)
    possible = [entry for entry in entries if not entry.unavailable(problem)]
    check(bool(possible), "contenders", settings.contenders, f"a list with one that there is for {settings.group}")
    for entry in possible:
        entry.make(problem)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every contender in every repetition, each a stage of its own; then ensembles of small networks."""
    images = load_images(settings, folder.data_dir)
    _same_data(folder, images)
    problem = problem_of(settings, images)
    entries = [contenders.find(name) for name in settings.contenders]
    left_out = {entry.name: entry.unavailable(problem) for entry in entries if entry.unavailable(problem)}
    entries = [entry for entry in entries if entry.name not in left_out]
    order = [name for name in ("ensemble", "augmented", entries[0].name) if name in {e.name for e in entries}]
    floor_of = "" if problem.action.exact else order[0]
    found: dict[str, list[Arrays]] = {
        entry.name: [
            folder.stage(
                f"{_file(entry.name)}-{r}",
                f"{entry.title}, repetition {r + 1} of {settings.repetitions}",
                partial(_contender, entry, settings, folder, r, entry.name == floor_of),
            )
            for r in range(settings.repetitions)
        ]
        for entry in entries
    }
    gather = lambda stages, key: np.stack([stage[key] for stage in stages])
    sets = list(images.sets)
    return Results(
        images=images,
        problem=problem,
        titles={entry.name: entry.title for entry in entries},
        labels={name: {s: gather(stages, f"labels_{s}") for s in sets} for name, stages in found.items()},
        costs={name: {c: gather(stages, c) for c in COSTS} for name, stages in found.items()},
        floor={s: gather(found[floor_of], f"floor_{s}") for s in sets} if floor_of else {},
        floor_of=floor_of,
        left_out=left_out,
        curves={k: _curve(settings, folder, problem, k, sets) for k in settings.shrink},
        gcnn_multiplications=float(count_multiplications(gcnn.network(problem), problem.shape)),
    )


def _same_data(folder: RunFolder, images: Images) -> None:
    """A resumed run goes on with the same images: a file of one's own may have changed."""
    parts = [images.train_x, images.train_y, images.test_y, *images.sets.values()]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()
    now = np.frombuffer(digest, np.uint8)
    then = folder.stage("data", "Images", lambda task: {"sha256": now})["sha256"]
    check(np.array_equal(then, now), "data", "changed since the run began", "what it was, or start anew with --force")


def _file(name: str) -> str:
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name)


def _contender(
    entry: contenders.Entry, settings: Settings, folder: RunFolder, repetition: int, floor: bool, task: Task
) -> Arrays:
    images = load_images(settings, folder.data_dir, draw=repetition)
    problem = problem_of(settings, images, repetition)
    orbits = {name: orbit_batch(problem.action, x) for name, x in images.sets.items()}
    outcome = contenders.run(entry, problem, images.train_x, images.train_y, orbits)
    shape = (int(problem.action.group.order), -1)
    arrays: Arrays = {f"labels_{name}": y.reshape(shape).astype(np.int16) for name, y in outcome.labels.items()}
    arrays |= {cost: np.array(getattr(outcome.cost, cost)) for cost in COSTS}
    if floor:
        averaged = contenders.Averaged(outcome.fitted, problem)
        for i, (name, x) in enumerate(orbits.items()):
            scores = np.asarray(averaged.predict(x))
            arrays[f"floor_{name}"] = scores.argmax(axis=1).reshape(shape).astype(np.int16)
            task.step(i + 1, len(orbits))
    return arrays


def small_channels(settings: Settings, shrink: int) -> tuple[int, ...]:
    """Those of the small networks."""
    return tuple(max(1, channels // shrink) for channels in settings.channels)


def _curve(settings: Settings, folder: RunFolder, problem: Problem, shrink: int, sets: Sequence[str]) -> Curve:
    channels = small_channels(settings, shrink)
    each = count_multiplications(cnn(problem, channels), problem.shape)
    budget = count_multiplications(gcnn.network(problem), problem.shape) // each
    members = max(1, min(budget, settings.most_members))
    sizes = sorted({min(2**k, members) for k in range(int(np.ceil(np.log2(members))) + 1)})
    stages = [
        folder.stage(
            f"small-{shrink}-{r}",
            f"{members} networks of {' and '.join(map(str, channels))} channels, "
            f"repetition {r + 1} of {settings.repetitions}",
            partial(_small, settings, folder, channels, sizes, r),
        )
        for r in range(settings.repetitions)
    ]
    labels = {s: np.stack([stage[f"labels_{s}"] for stage in stages], axis=1) for s in sets}
    return Curve(np.array(sizes), labels, channels, float(each))


def _small(
    settings: Settings, folder: RunFolder, channels: tuple[int, ...], sizes: Sequence[int], repetition: int, task: Task
) -> Arrays:
    images = load_images(settings, folder.data_dir, draw=repetition)
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


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the source states, and what decides between contenders."""
    judged: list[Claim] = []
    present, over = results.labels, covers(settings)
    osp = f"Orbit same predictions on {', '.join(results.images.titles[name] for name in results.foreign)}"
    if {"ensemble", "augmented"} <= present.keys():
        judged.append(
            claim(
                "Out of distribution the augmented ensemble agrees with itself more often than one augmented network",
                {"ensemble": results.difference(present["ensemble"], present["augmented"], "outside", 0.95)},
                measure=f"{osp}: ensemble of {settings.members} minus one network, out of {results.order}.",
                covers=over,
                at_least=0,
                source="stated in arXiv 2403.03103",
                stated=_stated_pair(settings.group),
                holds="Where orientations must not matter, averaging augmented networks brings more than training one.",
                fails="Averaging does not make augmented networks more invariant here.",
            )
        )
    exact = [name for name in _BY_CONSTRUCTION if name in present]
    if exact and results.problem.action.exact:
        least = lambda name: exactly(min(results.agreement(y).min() for y in present[name].values()))
        judged.append(
            claim(
                "Contenders with built-in invariance give every orientation of every image the same class",
                Records.over(least, lambda name: results.titles[name], name=tuple(exact)),
                measure=f"Orbit same predictions on the worst input of all sets and repetitions, of {results.order}.",
                covers=EXACT,
                at_least=results.order,
                source="stated in arXiv 2403.03103: 4 ± 0 for C4",
                holds="Where the class must never depend on the orientation, build the invariance in: the group "
                "moves pixels to pixels, and nothing is left to training.",
                fails="Rounding decides between classes of nearly equal score for some orientation: built-in "
                "invariance holds up to rounding.",
            )
        )
    others = [name for name in present if name != "plain"]
    if "plain" in present and others:
        level = shared_level(len(others))
        judged.append(
            claim(
                "Every contender that knows of the group is more accurate on rotated images than the plain network",
                Records.over(
                    lambda name: results.difference(present[name], present["plain"], "rotated", level),
                    lambda name: results.titles[name],
                    name=tuple(others),
                ),
                measure="Accuracy over the orbits of the test images, minus the plain network’s.",
                covers=over,
                at_least=0,
                source="ours: the plain network is the floor",
                holds="Any of them is better than to hope that orientation does not matter.",
                fails="At least one contender does not earn its cost: it is no better than the plain network.",
            )
        )
    if results.curves and "gcnn" in present:
        judged.append(_small_against_one(settings, results, over))
    if settings.data == "fashion_mnist":
        judged += [
            _as_stated(settings, results, name, over) for name in STATED if name in present and _stated(name, settings)
        ]
    if not judged:
        worst = lambda name: results.estimate(present[name], "outside", shared_level(len(present)))
        judged.append(
            claim(
                "Every contender gives at least half of the orientations of foreign images the same class",
                Records.over(worst, lambda name: results.titles[name], name=tuple(present)),
                measure=f"{osp}, out of {results.order}.",
                covers=over,
                at_least=results.order / 2,
                source="ours",
                holds="None is far from invariant.",
                fails="At least one is far from invariant.",
            )
        )
    return judged


def _small_against_one(settings: Settings, results: Results, over: str) -> Claim:
    level = shared_level(len(results.curves))

    def ahead(shrink: int) -> Estimate:
        largest = {name: labels[-1] for name, labels in results.curves[shrink].labels.items()}
        return results.difference(largest, results.labels["gcnn"], "rotated", level)

    def words(shrink: int) -> str:
        curve = results.curves[shrink]
        return f"{curve.sizes[-1]} networks of {' and '.join(map(str, curve.channels))} channels"

    return claim(
        "At no more than the cost of one group-convolutional network, ensembles of small augmented networks are at "
        "least as accurate on rotated images",
        Records.over(ahead, words, shrink=tuple(results.curves)),
        measure="Accuracy over the orbits of the test images: ensemble minus the group-convolutional network, at no "
        "more multiplications.",
        covers=over,
        at_least=0,
        source="ours: the question of cost",
        holds="With this budget, small augmented networks averaged do at least as well as one equivariant network.",
        fails="With this budget, at least one size of small networks is less accurate than one equivariant "
        "network: see the trade-off before averaging.",
        undecided="At equal cost small averaged networks and one equivariant network are not told apart in "
        "accuracy: choose by invariance.",
    )


def _stated(name: str, settings: Settings) -> tuple[float, float] | None:
    return STATED.get(name, {}).get(settings.group)


def stated_text(name: str, group: str) -> str:
    """The source's number, or nothing."""
    value = STATED.get(name, {}).get(group)
    return "" if value is None else f"{value[0]:g} ± {value[1]:g}"


def _stated_pair(group: str) -> str:
    texts = [stated_text(name, group) for name in ("ensemble", "augmented")]
    return f"{texts[0]} against {texts[1]} (rotated Fashion-MNIST)" if all(texts) else ""


def _as_stated(settings: Settings, results: Results, name: str, over: str) -> Claim:
    value, error = STATED[name][settings.group]
    number = results.estimate(results.labels[name], "outside")
    if error == 0:  # stated to be exact: the mean is at its bound if every input is
        number, over = exactly(number.value), EXACT
    return claim(
        f"Orbit same predictions out of distribution are those that the source states: {results.titles[name]}",
        {results.titles[name]: number},
        measure=f"Orbit same predictions out of distribution, out of {results.order}.",
        covers=over,
        at_least=value - error,
        at_most=value + error,
        source="arXiv 2403.03103; bounds are its errors",
        stated=f"{value:g} ± {error:g}",
        holds=f"The source’s number is met: {results.titles[name]}.",
        fails=f"The source’s number is not met: {results.titles[name]}. Networks, training time, pixels and foreign "
        "images are ours.",
        undecided=f"Whether the source’s number is met is not decided by this run: {results.titles[name]}.",
    )


def pairs(results: Results, measure: str) -> Records:
    """Differences between any two contenders, paired, with intervals that all hold together."""
    names = list(results.labels)
    both = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    level = shared_level(len(both))
    estimates = [results.difference(results.labels[a], results.labels[b], measure, level) for a, b in both]
    return Records(("contender", "other"), tuple(both), tuple(estimates))


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
