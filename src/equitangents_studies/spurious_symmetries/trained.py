"""Figure 2 of the source: six architectures, three inferences, five groups, on images that all of them share."""

from __future__ import annotations

import numpy as np

from equitangents_studies.common.system_images import SystemImages
from equitangents_studies.common.system_runs import by_key, counted_runs, predicted, relative
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.spurious_symmetries.settings import GROUPS, Settings
from equitangents_studies.systems import GradientInference, architecture, inference, transformation

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
