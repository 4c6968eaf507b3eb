"""What symmetries cost that an algorithm has and the data lack: through the data, through the model, in samples.

Images moved by a random element of a group are learnt as if the algorithm had that symmetry. Measured are accuracies of
six architectures, as NTK and as networks (NN, NN+), under five groups; of infinitely wide networks also with the
largest training sets that a desk allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from equitangents.studies.framework.citations import SYNERGY_AND_SYMMETRY
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents.studies.spurious_symmetries.claims import claims
from equitangents.studies.spurious_symmetries.pools import Pool, measure_pool, pool_of
from equitangents.studies.spurious_symmetries.results import Results
from equitangents.studies.spurious_symmetries.settings import (
    ARCHITECTURES,
    GROUPS,
    INFERENCES,
    PRESETS,
    SMALL_GROUPS,
    SMALL_MODELS,
    Settings,
    check_settings,
    figure_images,
    pool_images,
    sizes_of,
)
from equitangents.studies.spurious_symmetries.trained import kernel_accuracies, network_accuracies, width_of
from equitangents.systems import rotate

_PICTURES = 3


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Figure 2 architecture by architecture, then the pools of infinite width: a stage each."""
    s = settings
    images = figure_images(s, folder.data_dir)
    best, last, learnt, equal = {}, {}, {}, {}
    for name in ARCHITECTURES:
        found = folder.stage(f"NTK-{name}", f"{name}, NTK", partial(kernel_accuracies, name, s, images))
        best[name, "NTK"], last[name, "NTK"], equal[name] = found["best"], found["best"], found["equal"]
        learnt[name, "NTK"] = np.ones_like(found["best"])
        for how in INFERENCES[1:]:
            compute = partial(network_accuracies, name, how, s, images, width_of(name, s.width))
            found = folder.stage(f"{how}-{name}", f"{name}, {how}", compute)
            best[name, how], last[name, how], learnt[name, how] = found["best"], found["last"], found["learnt"]
    small = {}
    for name in SMALL_MODELS:
        for group in SMALL_GROUPS if name == "GAP" else ("I",):
            stage = f"small-{name}-{GROUPS.index(group)}"
            title = f"{name}, {s.small_images:,} images of {s.small_pixels} pixels, {group}"
            small[name, group] = _pool(s, folder, stage, title, name, s.small_images, s.small_pixels, ("I",), group)
    pools = {}
    for name, count in zip(s.models, s.images, strict=True):
        groups: tuple[str, ...] = GROUPS if name in s.moved else ("I",)
        title = f"{name}, {count:,} images of {s.kernel_pixels} pixels"
        pools[name] = _pool(s, folder, f"pool-{name}", title, name, count, s.kernel_pixels, groups)
    beside = None
    if "GAP" in s.models:  # VEC on the images of GAP
        count = s.images[s.models.index("GAP")]
        title = f"VEC, {count:,} images of {s.kernel_pixels} pixels"
        beside = _pool(s, folder, "pool-VEC-beside-GAP", title, "VEC", count, s.kernel_pixels, ("I",))
    pictures = folder.stage("pictures", "Images as the networks see them", partial(_pictures, s, folder))["pictures"]
    return Results(images[0].name, best, last, learnt, equal, pools, small, beside, pictures)


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
) -> Pool:
    """A pool whose images `before` moves first."""
    sizes = sizes_of(count, s.folds, s.smallest)

    def compute(task: Task) -> Arrays:
        x, y = pool_images(s, folder.data_dir, count, pixels)
        x = np.asarray(rotate(x, before, seed=s.seed), x.dtype)
        kept = folder.checkpoints(stage)
        return measure_pool(name, s.kernel_depth, x, y, groups, sizes, s.folds, s.ridge, s.seed, kept, task.step)

    return pool_of(folder.stage(stage, title, compute), groups, sizes)


def _pictures(settings: Settings, folder: RunFolder, task: Task) -> Arrays:
    x, _ = pool_images(settings, folder.data_dir, max(settings.images), settings.kernel_pixels)
    return {"pictures": np.stack([rotate(x[:_PICTURES], group, seed=settings.seed) for group in GROUPS])}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
