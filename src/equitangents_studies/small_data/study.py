"""Few images: kernels of infinitely wide convolutional networks against a trained CNN and a random forest.

Claimed for CIFAR-10: with 10 to 640 training images the tangent kernel of a convolutional network classifies 1 to 3
percentage points more of the test images rightly than a trained network. Every kernel is averaged exactly over flips.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from equitangents_studies.common import kernel_classification
from equitangents_studies.common.images import Images
from equitangents_studies.data.dataset import balanced
from equitangents_studies.framework.citations import SMALL_DATA, WITHOUT_TANGENTS
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task
from equitangents_studies.small_data import rivals
from equitangents_studies.small_data.claims import claims
from equitangents_studies.small_data.flips import KINDS, averaged_kernels, both_copies
from equitangents_studies.small_data.networks import NETWORKS, NONLINEARITIES, network
from equitangents_studies.small_data.results import CNN, FOREST, Results, kernel_name
from equitangents_studies.small_data.settings import PRESETS, Settings, check_settings, load, source

_KERNELS_SHARE = 0.8  # of a stage's bar that its kernels take; the rest are fits


def training_sets(settings: Settings, images: Images, size: int) -> list[np.ndarray]:
    """Rows of the pool, a set for each draw, classes in proportion: the same for all models."""
    return [
        balanced(images.train_y, size, np.random.default_rng((settings.seed, size, d)), "images of the pool")
        for d in range(settings.draws)
    ]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every kernel once, over all images; then all draws of all sizes out of it. Networks and forests by size."""
    images = load(settings, folder.data_dir)
    work: dict[str, Stage] = {}
    for name in NETWORKS:
        for phi, said in NONLINEARITIES.items():
            title = f"{name}, {said}: kernels of {len(images.train_x)} + {len(images.test_y)} images, flips averaged"
            stage = f"{name}-{phi}".lower()
            work[stage] = Stage(stage, title, partial(_kernel, settings, images, name, phi))
    for size in settings.sizes:
        draws = training_sets(settings, images, size)
        for label, compute in (("network", rivals.networks), ("forest", rivals.forests)):
            run = lambda task, compute=compute, draws=draws: compute(settings, images, draws, task.step)
            title = f"{settings.draws} {label}s, {size} training images"
            work[f"{label}s-{size}"] = Stage(f"{label}s-{size}", title, run)
    work["equal"] = Stage("equal", "Training on both copies", partial(_equal, settings, images))
    found = folder.stages(work)
    right = {
        kernel_name(name, phi, kind): found[f"{name}-{phi}".lower()][kind]
        for name in NETWORKS
        for phi in NONLINEARITIES
        for kind in KINDS
    }
    right[CNN] = np.stack([found[f"networks-{size}"]["right"] for size in settings.sizes])
    right[FOREST] = np.stack([found[f"forests-{size}"]["right"] for size in settings.sizes])
    rates = [float(found[f"networks-{size}"]["rate"]) for size in settings.sizes]
    equal = found["equal"]
    return Results(
        right,
        np.array(rates),
        dict(zip(equal["names"].tolist(), equal["differences"].tolist(), strict=True)),
        source(settings, folder.data_dir),
        images.train_x.shape[1:],
        len(images.train_x),
    )


def _kernel(settings: Settings, images: Images, name: str, phi: str, task: Task) -> Arrays:
    """By kind, which test images are right: (sizes, draws, test images)."""
    net = network(name, phi, settings.hidden_layers)
    step = lambda done, total: task.step(_KERNELS_SHARE * done / total, 1)
    kernels = averaged_kernels(net, images.train_x, images.sets["test"], step)
    right = {kind: np.zeros((len(settings.sizes), settings.draws, len(images.test_y)), bool) for kind in KINDS}
    for i, size in enumerate(settings.sizes):
        for d, rows in enumerate(training_sets(settings, images, size)):
            for kind, (inner, outer) in kernels.items():
                fit = kernel_classification.fit(inner[np.ix_(rows, rows)], images.train_y[rows], images.classes)
                right[kind][i, d] = fit.predict(outer[:, rows]) == images.test_y
            done = (i + (d + 1) / settings.draws) / len(settings.sizes)
            task.step(_KERNELS_SHARE + (1 - _KERNELS_SHARE) * done, 1)
    return dict(right)


def _equal(settings: Settings, images: Images, task: Task) -> Arrays:
    """Averaged kernels against training on both copies, of every network on a few images."""
    n = settings.checked
    differences: dict[str, float] = {}
    for name in NETWORKS:
        for phi in NONLINEARITIES:
            net = network(name, phi, settings.hidden_layers)
            found = both_copies(net, images.train_x[:n], images.targets[:n], images.sets["test"][:n])
            differences |= {kernel_name(name, phi, kind): float(found[kind]) for kind in KINDS}
            task.step(len(differences), 2 * len(NETWORKS) * len(NONLINEARITIES))
    return {"names": np.array(list(differences)), "differences": np.array(list(differences.values()))}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SMALL_DATA, WITHOUT_TANGENTS), check_settings)
