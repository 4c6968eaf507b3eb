"""Images and their rotations: how often a prediction stays the same over an orbit, in and out of distribution.

CNNs are trained on images in all |G| orientations. Claimed: the mean of an ensemble agrees with itself over the orbit
more often than any of its members, throughout training and off the data; at infinite width it always does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from equitangents import actions
from equitangents.ensembles import InfiniteEnsemble
from equitangents_studies.common.images import Images, load_images
from equitangents_studies.common.infinite import largest_rate
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.rotated_images.claims import DRAWS, PREDICTED, claims, floor_stage
from equitangents_studies.rotated_images.settings import (
    PRESETS,
    Results,
    Settings,
    check_settings,
    ensemble_labels,
    ensemble_sizes,
    network,
    stated_agreement,
)

__all__ = ["PRESETS", "STUDY", "Results", "Settings", "claims", "load_images", "measure", "network", "stated_agreement"]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Train the ensemble and solve the infinitely wide one, at the same times."""
    images = load_images(settings, folder.data_dir)
    action, names = actions.image_rotations(settings.order), images.sets
    epochs = np.array(sorted({0, *settings.recorded_epochs, settings.epochs}))
    rate = float(folder.stage("rate", "Largest stable learning rate", lambda task: _rate(settings, images))["rate"])
    infinite: Arrays = {}
    if settings.infinite_train:
        title = f"Infinite width, closed form, {settings.infinite_train} training images"
        infinite = folder.stage("infinite", title, partial(_infinite, settings, images, epochs, rate))
    training: dict[str, Any] = {
        "net": network(settings, images.classes),
        "x": images.train_x,
        "y": images.targets if settings.loss == "mse" else images.probabilities,
        "augmentation": action,
        "optimizer": settings.optimizer,
        "learning_rate": rate,
        "epochs": settings.epochs,
        "batch_size": settings.batch,
        "loss": settings.loss,
        "seed": settings.seed,
    }
    train = lambda stage, **how: lambda task: train_to_last(folder.checkpoints(stage), task=task, **{**training, **how})
    ensemble = train(
        "ensemble",
        members=settings.members,
        record=images.sets,
        record_at=epochs,
        orbits=action,
        keep=partial(_kept, settings),
    )
    finite = folder.stage("ensemble", f"Training {settings.members} CNNs together", ensemble)
    narrow: Arrays = {}
    if settings.narrow:
        narrower = train(
            "narrow",
            net=network(replace(settings, channels=settings.narrow), images.classes),
            members=settings.members,
            record=images.sets,
            record_at=[settings.epochs],
            orbits=action,
            keep=_last_classes,
        )
        narrow = folder.stage("narrow", f"Training {settings.members} narrower CNNs together", narrower)
    results = Results(
        images=images,
        action=action,
        epochs=epochs,
        learning_rate=rate,
        infinite={name: infinite[name] for name in names} if infinite else {},
        predicted={name: infinite[f"predicted_{name}"] for name in names if f"predicted_{name}" in infinite},
        deviation={name: infinite[f"deviation_{name}"] for name in names if infinite},
        margin={name: infinite[f"margin_{name}"] for name in names if infinite},
        narrow=narrow,
        **{of: {name: finite[f"{of}_{name}"] for name in names} for of in ("members", "mean", "outputs")},
    )
    if action.exact:
        return results
    return replace(results, floor=dict(floor_stage(settings, folder, results, **training)))


def _rate(settings: Settings, images: Images) -> Arrays:
    few = min(128, len(images.train_x))
    x, augmentation = images.train_x[:few].astype(np.float64), actions.image_rotations(settings.order)
    largest = largest_rate(network(settings, images.classes), x, images.targets[:few], augmentation=augmentation)
    return {"rate": np.array(settings.rate * largest)}


def _infinite(settings: Settings, images: Images, epochs: np.ndarray, rate: float, task: Task) -> Arrays:
    """Predicted classes of the closed form, in float64, on every element of every orbit: nothing is assumed equal."""
    action = actions.image_rotations(settings.order)
    model = InfiniteEnsemble(network(settings, images.classes), augmentation=action, time=0.0, learning_rate=rate)
    count = min(settings.infinite_train, len(images.train_x))
    model.fit(images.train_x[:count].astype(np.float64), images.targets[:count])
    steps_per_epoch = -(-len(images.train_x) * settings.order // settings.batch)
    times = epochs * float(steps_per_epoch)
    arrays: Arrays = {}
    for i, (name, x) in enumerate(images.sets.items()):
        mean = model.predict(orbit_batch(action, x.astype(np.float64)), time=times)
        each = by_element(action, mean)  # (E, |G|, N, K)
        arrays[name] = each.argmax(axis=-1).astype(np.int16)
        arrays[f"deviation_{name}"], arrays[f"margin_{name}"] = margins(action, each)
        if action.exact and settings.loss == "mse" and count == len(images.train_x):
            statistics = model.orbit_statistics(
                action, x[:PREDICTED].astype(np.float64), ensemble_sizes(settings), time=float(times[-1]), draws=DRAWS
            )
            arrays[f"predicted_{name}"] = np.column_stack([statistics.osp.expected, statistics.osp.interval])
        task.step(i + 1, len(images.sets))
    return arrays


def margins(action: actions.Action, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(E,) each: the largest |μ(ρ(g)x) − μ(x)| and the smallest lead of the largest output of (E, |G|, N, K).

    Both relative to the root mean square of the outputs; where all outputs are 0, before training, both are 0.
    """
    size = np.sqrt((outputs**2).mean(axis=(1, 2, 3)))
    moved = np.abs(outputs - outputs[:, action.group.identity, None]).max(axis=(1, 2, 3))
    second, first = np.moveaxis(np.partition(outputs, -2, axis=-1)[..., -2:], -1, 0)
    lead = (first - second).min(axis=(1, 2))
    return tuple(np.divide(found, size, out=np.zeros_like(size), where=size != 0) for found in (moved, lead))


def _last_classes(recorded: Arrays) -> Arrays:
    return {name: outputs[-1].argmax(axis=-1).astype(np.int16) for name, outputs in recorded.items()}


def _kept(settings: Settings, recorded: Arrays) -> Arrays:
    """Predicted classes of members and of their mean at every time, and outputs after the last epoch."""
    arrays: Arrays = {}
    for name, outputs in recorded.items():
        arrays[f"members_{name}"] = outputs.argmax(axis=-1).astype(np.int16)
        arrays[f"mean_{name}"] = ensemble_labels(settings, outputs, axis=1)
        arrays[f"outputs_{name}"] = outputs[-1]
    return arrays


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
