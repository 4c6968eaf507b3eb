"""What symmetries cost that an algorithm has and the data lack: through the data, through the model, in samples.

Images moved by a random element of a group are learnt as if the algorithm had that symmetry. Measured are accuracies of
six architectures, as NTK and as networks (NN, NN+), under five groups; of infinitely wide networks also with the
largest training sets that a desk allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents_studies.common.system_runs import (
    SystemImages,
    by_key,
    counted_runs,
    draw_accuracies,
    predicted,
    relative,
    repeated_images,
)
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY
from equitangents_studies.spurious_symmetries.claims import claims
from equitangents_studies.spurious_symmetries.pools import measure_pool, pool_of
from equitangents_studies.spurious_symmetries.settings import (
    GROUPS,
    INFERENCES,
    PRESETS,
    SMALL_GROUPS,
    SMALL_MODELS,
    Results,
    Settings,
    architectures_of,
    check_settings,
    pool_images,
    sizes_of,
)
from equitangents_studies.systems import architecture, inference, rotate, transformation
from equitangents_studies.systems.descent import GradientInference

_EIGENVALUE_INPUTS = 64


def kernel_accuracies(name: str, settings: Settings, images: list[SystemImages], task: Task) -> Arrays:
    """Accuracies of the NTK, (groups, repetitions), and how far kernels of moved images are from the others.

    Repetition r moves its images by the elements that the seed + r draws.
    """
    net = architecture(name, settings.depth)
    best, equal = np.zeros((2, len(GROUPS), len(images)))
    for r, one in enumerate(images):
        first: np.ndarray | None = None
        for i, group in enumerate(GROUPS):
            tau = transformation(group, one.train_x.shape[1:], seed=settings.seed + r)
            x, test = (np.asarray(tau(part), np.float32) for part in (one.train_x, one.test_x))
            K = np.concatenate([net.kernel(x).ntk, net.kernel(test, x).ntk])
            outputs = predicted(K[: len(x)], K[len(x) :], one.targets, settings.ridge)
            first = K if first is None else first
            best[i, r] = np.mean((outputs.argmax(axis=1) == one.test_y) & np.isfinite(outputs).all(axis=1))
            equal[i, r] = relative(K, first)
            task.step(r * len(GROUPS) + i + 1, len(GROUPS) * len(images))
    return {"best": best, "equal": equal}


def network_accuracies(
    name: str, how: str, settings: Settings, images: list[SystemImages], width: int, task: Task
) -> Arrays:
    """Accuracies of networks, (groups, repetitions): what `counted_runs` gives, by its keys."""
    learning = inference(how, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    assert isinstance(learning, GradientInference)
    net = architecture(name, settings.depth, width)
    rows = []
    for i, group in enumerate(GROUPS):
        rows.append(counted_runs(group, net, learning, settings.seed, images, first_alone=i == 0))
        task.step(i + 1, len(GROUPS))
    return by_key(rows)


def width_of(name: str, width: int) -> int:
    """Channels of an architecture in the source's proportions, 1024 / 32 / 128 for FCN / LCN / the others."""
    return {"FCN": 8 * width, "LCN": max(width // 4, 1)}.get(name, width)


_PICTURES = 3


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Figure 2 architecture by architecture, then the pools of infinite width: a stage each."""
    s = settings
    images = repeated_images(s, folder.data_dir, s.repetitions)
    work: dict[Any, Stage] = {}
    compared = architectures_of(s)
    for name in compared:
        work[name, "draws"] = Stage(f"draws-{name}", f"{name}, draws", partial(_draws, name, s, images))
        work[name, "NTK"] = Stage(f"NTK-{name}", f"{name}, NTK", partial(kernel_accuracies, name, s, images))
        for how in INFERENCES[1:]:
            compute = partial(network_accuracies, name, how, s, images, width_of(name, s.width))
            work[name, how] = Stage(f"{how}-{name}", f"{name}, {how}", compute)
    small: dict[tuple[str, str], _Pooled] = {}
    for name in SMALL_MODELS:
        for group in SMALL_GROUPS if name == "GAP" else ("I",):
            stage = f"small-{name}-{GROUPS.index(group)}"
            title = f"{name}, {s.small_images:,} images of {s.small_pixels} pixels, {group}"
            small[name, group] = _pool(s, folder, stage, title, name, s.small_images, s.small_pixels, ("I",), group)
    pools: dict[str, _Pooled] = {}
    for name, count in zip(s.models, s.images, strict=True):
        groups: tuple[str, ...] = GROUPS if name in s.moved else ("I",)
        title = f"{name}, {count:,} images of {s.kernel_pixels} pixels"
        pools[name] = _pool(s, folder, f"pool-{name}", title, name, count, s.kernel_pixels, groups)
    beside = None
    if "GAP" in s.models:  # VEC on the images of GAP
        count = s.images[s.models.index("GAP")]
        title = f"VEC, {count:,} images of {s.kernel_pixels} pixels"
        beside = _pool(s, folder, "pool-VEC-beside-GAP", title, "VEC", count, s.kernel_pixels, ("I",))
    for pool in (*small.values(), *pools.values(), *([beside] if beside else [])):
        work[pool.stage.name] = pool.stage
    work["pictures"] = Stage("pictures", "Images as the networks see them", partial(_pictures, s, folder.data_dir))
    found = folder.stages(work)
    best, last, learnt, equal = {}, {}, {}, {}
    for name in compared:
        kernel = found[name, "NTK"]
        best[name, "NTK"], last[name, "NTK"], equal[name] = kernel["best"], kernel["best"], kernel["equal"]
        learnt[name, "NTK"] = np.ones_like(kernel["best"])
        for how in INFERENCES[1:]:
            of = found[name, how]
            best[name, how], last[name, how], learnt[name, how] = of["best"], of["last"], of["learnt"]
    read = lambda pool: pool_of(found[pool.stage.name], pool.groups, pool.sizes)
    return Results(
        images[0].name,
        best,
        last,
        learnt,
        equal,
        {name: read(pool) for name, pool in pools.items()},
        {key: read(pool) for key, pool in small.items()},
        read(beside) if beside else None,
        {name: found[name, "draws"]["draws"] for name in compared},
        found["pictures"]["pictures"],
    )


@dataclass(frozen=True, eq=False)
class _Pooled:
    """A stage that measures a pool, and what it is read with."""

    stage: Stage
    groups: Sequence[str]
    sizes: np.ndarray


def _pool(
    s: Settings,
    folder: RunFolder,
    stage: str,
    title: str,
    name: str,
    count: int,
    pixels: int,
    groups: Sequence[str],
    before: str = "I",
) -> _Pooled:
    """A pool whose images `before` moves first."""
    sizes, kept = sizes_of(count, s.folds, s.smallest), folder.checkpoints(stage)
    images = partial(pool_images, s, folder.data_dir, count, pixels)
    compute = partial(_measured_pool, s, images, before, name, groups, sizes, kept)
    return _Pooled(Stage(stage, title, compute), groups, sizes)


def _measured_pool(
    s: Settings, images: Callable[[], tuple[np.ndarray, np.ndarray]], before: str, name: str, groups: Sequence[str],
    sizes: np.ndarray, kept: Path, task: Task,
) -> Arrays:  # fmt: skip
    x, y = images()
    x = np.asarray(rotate(x, before, seed=s.seed), x.dtype)
    return measure_pool(name, s.kernel_depth, x, y, groups, sizes, s.folds, s.ridge, s.seed, kept, task.step)


def _draws(name: str, settings: Settings, images: Sequence[SystemImages], task: Task) -> Arrays:
    return draw_accuracies(architecture(name, settings.depth), images, GROUPS, settings.ridge, settings.seed, task)


def _pictures(settings: Settings, data_dir: Path | None, task: Task) -> Arrays:
    x, _ = pool_images(settings, data_dir, max(settings.images), settings.kernel_pixels)
    return {"pictures": np.stack([rotate(x[:_PICTURES], group, seed=settings.seed) for group in GROUPS])}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
