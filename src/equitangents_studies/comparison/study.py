"""Which way to an invariant classifier? Accuracy and orbit same predictions of every baseline beside what it costs.

Every baseline is trained on upright images, one way or another with the group, and asked for the class of every
element of every orbit, in and out of distribution.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from equitangents_studies import baselines
from equitangents_studies.baselines import Problem
from equitangents_studies.baselines.baseline import Entry
from equitangents_studies.baselines.machines import TrainedNetworks
from equitangents_studies.baselines.networks import cnn, count_multiplications
from equitangents_studies.baselines.registry import group_convolutional
from equitangents_studies.common.images import Images, load_images, zero_at_border
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.comparison.claims import claims
from equitangents_studies.comparison.settings import COSTS, PRESETS, Curve, Results, Settings, small_channels
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE


def images_of(settings: Settings, data_dir: Path | None, repetition: int = 0) -> Images:
    """The images of one repetition, with the shade that `zero` names at 0."""
    images = load_images(settings, data_dir, draw=repetition)
    return images if settings.zero == "mean" else zero_at_border(images)


def problem_of(settings: Settings, images: Images, repetition: int = 0) -> Problem:
    """What baselines are told in one repetition."""
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
    """Baselines that can be found and made, sizes, and images that are there."""
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


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every baseline in every repetition, each a stage of its own; then ensembles of small networks.

    Baselines are timed: no two of them run at once.
    """
    images = images_of(settings, folder.data_dir)
    _same_data(folder, images)
    problem = problem_of(settings, images)
    entries = [baselines.find(name) for name in settings.baselines]
    left_out = {entry.name: entry.unavailable(problem) for entry in entries if entry.unavailable(problem)}
    entries = [entry for entry in entries if entry.name not in left_out]
    order = [name for name in ("ensemble", "augmented", entries[0].name) if name in {e.name for e in entries}]
    floor_of = "" if problem.action.exact else order[0]
    found: dict[str, list[Arrays]] = {
        entry.name: [
            folder.stage(
                f"{_file(entry.name)}-{r}",
                f"{entry.title}, repetition {r + 1} of {settings.repetitions}",
                partial(_baseline, entry, settings, folder, r, entry.name == floor_of),
            )
            for r in range(settings.repetitions)
        ]
        for entry in entries
    }
    gather = lambda stages, key: np.stack([stage[key] for stage in stages])
    sets = list(images.sets)
    shrink = settings.shrink if "gcnn" in found else ()  # small networks are compared with that alone
    affordable = [k for k in shrink if _budget(settings, problem, k)]
    return Results(
        images=images,
        problem=problem,
        titles={entry.name: entry.title for entry in entries},
        labels={name: {s: gather(stages, f"labels_{s}") for s in sets} for name, stages in found.items()},
        costs={name: {c: gather(stages, c) for c in COSTS} for name, stages in found.items()},
        floor={s: gather(found[floor_of], f"floor_{s}") for s in sets} if floor_of else {},
        floor_of=floor_of,
        left_out=left_out,
        curves={k: _curve(settings, folder, problem, k, sets) for k in affordable},
        gcnn_multiplications=float(count_multiplications(group_convolutional(problem), problem.shape)),
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


def _baseline(entry: Entry, settings: Settings, folder: RunFolder, repetition: int, floor: bool, task: Task) -> Arrays:
    images = images_of(settings, folder.data_dir, repetition)
    problem = problem_of(settings, images, repetition)
    orbits = {name: orbit_batch(problem.action, x) for name, x in images.sets.items()}
    outcome = baselines.run(entry, problem, images.train_x, images.train_y, orbits)
    shape = (int(problem.action.group.order), -1)
    arrays: Arrays = {f"labels_{name}": y.reshape(shape).astype(np.int16) for name, y in outcome.labels.items()}
    arrays |= {cost: np.array(getattr(outcome.cost, cost)) for cost in COSTS}
    if floor:
        averaged = baselines.Averaged(outcome.fitted, problem)
        for i, (name, x) in enumerate(orbits.items()):
            scores = np.asarray(averaged.predict(x))
            arrays[f"floor_{name}"] = scores.argmax(axis=1).reshape(shape).astype(np.int16)
            task.step(i + 1, len(orbits))
    return arrays


def _budget(settings: Settings, problem: Problem, shrink: int) -> int:
    """How many of the small networks cost as much as one group-convolutional one; 0 where one costs more."""
    each = count_multiplications(cnn(problem, small_channels(settings, shrink)), problem.shape)
    return int(count_multiplications(group_convolutional(problem), problem.shape) // each)


def _curve(settings: Settings, folder: RunFolder, problem: Problem, shrink: int, sets: Sequence[str]) -> Curve:
    channels = small_channels(settings, shrink)
    each = count_multiplications(cnn(problem, channels), problem.shape)
    members = min(_budget(settings, problem, shrink), settings.most_members)
    sizes = sorted({min(2**k, members) for k in range(int(np.ceil(np.log2(members))) + 1)})
    said = f"{members} networks of {' and '.join(map(str, channels))} channels, repetition "
    stages = folder.stages(
        {
            r: Stage(
                f"small-{shrink}-{r}",
                f"{said}{r + 1} of {settings.repetitions}",
                partial(_small, settings, folder.data_dir, channels, sizes, r),
            )
            for r in range(settings.repetitions)
        }
    )
    labels = {s: np.stack([stage[f"labels_{s}"] for stage in stages.values()], axis=1) for s in sets}
    return Curve(np.array(sizes), labels, channels, float(each))


def _small(
    settings: Settings,
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


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
