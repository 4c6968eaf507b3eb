"""Along a path exp(−tA) into O(3)^d: is VEC of finite width nearer to GAP, or to infinitely wide VEC?

VEC of finite width is symmetric under O(3)xI alone, as GAP is, infinitely wide VEC under O(3)^d. Images that are moved
further into O(3)^d lose what the smaller group is good for. Measured is S-Dist, the squared distance between the mean
predictions of two algorithms, of VEC trained and tested on moved images to GAP on images as they are, and to infinitely
wide VEC, to which the moves are nothing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents_studies.common.system_images import SystemImages, asked_images
from equitangents_studies.framework.citations import SYNERGY_AND_SYMMETRY
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.symmetry_breaking_path.claims import claims
from equitangents_studies.symmetry_breaking_path.results import Results, Settings
from equitangents_studies.systems import KernelInference, System, architecture, inference, path

PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        train_images=300, test_images=400, pixels=8, times=(0.0, 0.5, 1.0, 2.0), widths=(16, 32, 64), members=10,
        epochs=150, ridge=1e-4,
    ),
    "paper": Settings(
        data="cifar10", train_images=45000, test_images=10000, pixels=32, times=(0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
        widths=(64, 128, 256, 512), depth=8, members=10, epochs=900,
    ),
}  # fmt: skip
_EIGENVALUE_INPUTS = 64


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A path that begins at the identity, members enough for an interval, channels that can be rotated."""
    at_least(settings, train_images=20, test_images=2, pixels=3, depth=1, members=5, epochs=1, ridge=0)
    times = settings.times
    check(len(times) >= 2 and times[0] == 0 and list(times) == sorted(set(times)), "times", times, "increasing from 0")
    check(len(settings.widths) >= 1 and min(settings.widths) >= 1, "widths", settings.widths, "at least one, from 1 on")
    images = asked_images(settings, data_dir)
    check(images.train_x.shape[-1] > 1, "data", settings.data, "images of several channels: O(1) has no path")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """VEC of every width at every time and GAP of every width, one stage each."""
    images = asked_images(settings, folder.data_dir)
    work: dict[Any, Stage] = {"limit": Stage("limit", "Infinitely wide VEC", partial(_limit, settings, images))}
    for width in settings.widths:
        alone = partial(_trained, "GAP", width, 0.0, settings, images)
        work["GAP", width] = Stage(f"GAP-{width}", f"GAP, width {width}", alone)
        for i, t in enumerate(settings.times):
            moved = partial(_trained, "VEC", width, t, settings, images)
            work[width, t] = Stage(f"VEC-{width}-{i}", f"VEC, width {width}, t = {t:g}", moved)
    found = folder.stages(work)
    limit = found.pop("limit")["outputs"]
    gap = {width: found.pop(("GAP", width)) for width in settings.widths}
    return Results(
        images.name,
        {at: arrays["outputs"] for at, arrays in found.items()},
        {width: arrays["outputs"] for width, arrays in gap.items()},
        {at: arrays["learnt"] for at, arrays in found.items()},
        {width: arrays["learnt"] for width, arrays in gap.items()},
        limit,
        images.test_y,
    )


def _limit(settings: Settings, images: SystemImages, task: Task) -> Arrays:
    """Predictions of infinitely wide VEC (test images, classes); moved images have the same."""
    system = System("I", architecture("VEC", settings.depth), KernelInference(ridge=settings.ridge))
    outputs = system.fit(images.train_x, images.targets).predict(images.test_x)
    task.step(1, 1)
    return {"outputs": outputs}


def _trained(name: str, width: int, t: float, settings: Settings, images: SystemImages, task: Task) -> Arrays:
    """Networks of one kind and width trained and tested on images moved to one time."""
    tau = path("O(3)^d", images.train_x.shape[1:], seed=settings.seed)(t)
    learning = inference("NN+", members=settings.members, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    system = System("I", architecture(name, settings.depth, width), learning, settings.seed)
    fitted = system.fit(tau(images.train_x), images.train_y)
    outputs = np.zeros((settings.members, len(images.test_x), images.classes))
    outputs[..., fitted.classes] = fitted.predict_members(tau(images.test_x))
    task.step(1, 1)
    return {"outputs": outputs, "learnt": fitted.trained.accuracies}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
