"""VEC against width: does it lose its advantage over its infinite limit as it grows, and what do rotations cost it?

VEC of finite width is symmetric under O(3)xI alone, in the limit of infinite width under O(3)^d. So networks of some
width can use what a rotation of the channels at every position destroys; wider ones less and less of it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents_studies.common.system_images import SystemImages, repeated_images
from equitangents_studies.common.system_runs import by_key, counted_runs, draw_accuracies
from equitangents_studies.finite_width_vec.claims import claims
from equitangents_studies.finite_width_vec.results import GROUPS, INFERENCES, Results, Settings
from equitangents_studies.framework.citations import SYNERGY_AND_SYMMETRY
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.systems import GradientInference, architecture, inference, rotate

PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        train_images=600, test_images=400, widths=(16, 32, 64, 128, 256), runs=5, needed=4, epochs=600
    ),
    "paper": Settings(
        data="cifar10", train_images=45000, test_images=5000, pixels=32, depth=8,
        widths=(8, 16, 32, 64, 128, 256, 512), runs=5, needed=4, epochs=900,
    ),
}  # fmt: skip
_EIGENVALUE_INPUTS = 64
_PICTURES = 4


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Widths that double, and runs enough for an interval."""
    s = settings
    at_least(s, train_images=10, test_images=2, pixels=3, depth=1, runs=2, needed=2, epochs=1)
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    check(s.needed <= s.runs, "needed", s.needed, f"at most runs, {s.runs}")
    powers = len(s.widths) >= 2 and list(s.widths) == sorted(set(s.widths)) and all(_is_power(w) for w in s.widths)
    check(powers, "widths", s.widths, "two or more powers of 2, increasing")
    repeated_images(s, data_dir, s.runs)


def _is_power(n: int) -> bool:
    return n >= 1 and n & (n - 1) == 0


def measure(settings: Settings, folder: RunFolder) -> Results:
    """The NTK, then every width, inference and group, one stage each."""
    s = settings
    images = repeated_images(s, folder.data_dir, s.runs)
    work: dict[Any, Stage] = {"limit": Stage("limit", "Infinite width", partial(_limit, s, images))}
    kinds = [(how, group) for how in INFERENCES for group in GROUPS]
    for width in s.widths:
        for how, group in kinds:
            stage, title = f"{how}-{width}-{GROUPS.index(group)}", f"Width {width}, {how}, {group}"
            work[width, how, group] = Stage(stage, title, partial(_runs, width, how, group, s, images))
    found = folder.stages(work)
    limit, draws = (dict(zip(GROUPS, found["limit"][key], strict=True)) for key in ("mean", "draws"))
    of = lambda key: {at: np.stack([found[width, *at][key] for width in s.widths]) for at in kinds}
    few = images[0].train_x[:_PICTURES]
    pictures = np.stack([rotate(few, group, seed=s.seed) for group in GROUPS])
    return Results(images[0].name, s.widths, s.needed, of("best"), of("last"), of("learnt"), limit, draws, pictures)


def _limit(settings: Settings, images: list[SystemImages], task: Task) -> Arrays:
    """Accuracies of the NTK and of single infinitely wide networks, with the transformations of the networks."""
    net = architecture("VEC", settings.depth)
    return draw_accuracies(net, images, GROUPS, settings.ridge, settings.seed, task)


def _runs(width: int, how: str, group: str, settings: Settings, images: list[SystemImages], task: Task) -> Arrays:
    """Runs of one width, (runs,) by the keys of `counted_runs`."""
    learning = inference(how, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    assert isinstance(learning, GradientInference)
    net = architecture("VEC", settings.depth, width)
    found = by_key([counted_runs(group, net, learning, settings.seed, images, first_alone=group == GROUPS[0])])
    task.step(1, 1)
    return {key: rows[0] for key, rows in found.items()}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
