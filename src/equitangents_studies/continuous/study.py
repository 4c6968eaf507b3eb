"""A continuous group sampled by finite ones: SO(2) after augmentation with C_k.

Claimed (Lemma 6.2): the mean changes by at most κ C(x) under any rotation, κ the distance of the group from C_k. Images
are rotated in two ways: on rings, where rotation by any angle is exact, and by resampling pixels, which has a floor.
Ensembles of CNNs are trained on images in k orientations and asked at all angles, with what each k costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import actions, nn
from equitangents_studies import data
from equitangents_studies.common.image_ensembles import cost_of_a_step, rotations, train_on_orbits
from equitangents_studies.common.images import load_images, standardise
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, there_and_back
from equitangents_studies.common.rotation_bound import coarseness, largest_gradients, representation
from equitangents_studies.common.training import train_to_last
from equitangents_studies.continuous.claims import claims
from equitangents_studies.continuous.settings import (
    PRESETS,
    WAYS,
    ImageEnsembles,
    Results,
    Settings,
    bound_share,
    check_settings,
    finite_violation,
)
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE

__all__ = ["PRESETS", "STUDY", "WAYS", "Results", "Settings", "bound_share", "claims", "finite_violation", "measure"]


def _images(
    settings: Settings, data_dir: Path | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Training inputs, test inputs, each by way, and targets."""
    source = data.load(settings.data, data_dir).subset(settings.train_images, settings.test_images, seed=settings.seed)
    side = source.shape[0] if settings.pixels is None else settings.pixels
    sized = (data.resize(x, (side, side)) for x in (source.train_x, source.test_x))
    train, test = (standardise(x).astype(np.float64) for x in sized)
    rings = lambda x: actions.to_rings(x, settings.rings, settings.samples)
    # outside the disc nothing comes back after a turn: the mask leaves out the corners
    cut = lambda x: np.asarray(_action("pixels", 4)(0, x))
    targets = np.eye(source.classes)[source.train_y] - 1 / source.classes
    return {"rings": rings(train), "pixels": cut(train)}, {"rings": rings(test), "pixels": cut(test)}, targets


def _action(way: str, n: int) -> actions.Action:
    return actions.ring_rotations(n) if way == "rings" else actions.image_rotations(n, mask="circle")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Both ways in closed form for every k, then finite ensembles on rings."""
    train, test, y = _images(settings, folder.data_dir)
    levels = {"way": WAYS, "k": settings.orders, "step": _steps(settings), "trained": settings.trained}
    closed = [
        Part(f"{way}-{{k}}", f"C{{k}} on {way}, closed form", partial(_closed, settings, way, train[way], y, test[way]))
        for way in WAYS
    ]
    found = measured(
        folder,
        Part("kappa", "Distance of C_k from SO(2)", partial(_kappa, settings, test["pixels"])),
        *closed,
        levels=levels,
    )
    rates = found.by("k", "rings.rate")
    title = f"Training {settings.members} members, C{{trained}} on rings"
    train_one = partial(_trained, settings, folder, rates, train["rings"], y, test["rings"])
    found |= measured(folder, Part("ensemble-{trained}", title, train_one, ensemble=True), levels=levels)
    images = _image_ensembles(settings, folder) if settings.image_orders else None
    return Results.read(found, steps=_steps(settings), images=images)


def _trained(
    settings: Settings, folder: RunFolder, rates: Mapping[int, float], x: np.ndarray, y: np.ndarray, test: np.ndarray,
    k: int, task: Task,
) -> Arrays:  # fmt: skip
    recorded = train_to_last(
        folder.checkpoints(f"ensemble-{k}"),
        _network(settings, settings.width, y.shape[1]),
        x,
        y,
        task,
        augmentation=_action("rings", k),
        members=settings.members,
        learning_rate=rates[k],
        record={"members": test},
        record_at=[int(_steps(settings)[-1])],
        orbits=_action("rings", settings.angles),
        seed=settings.seed,
    )
    return {"members": recorded["members"][0].astype(np.float32)}


def _image_ensembles(settings: Settings, folder: RunFolder) -> ImageEnsembles:
    """One training of all networks for every k, each a stage of its own."""
    images, recipe = load_images(settings.images, folder.data_dir), settings.recipe
    fine = rotations(settings.angles)
    cost = folder.stage("image-cost", "Cost of a training step", partial(cost_of_a_step, recipe, images))
    trained = {
        k: train_on_orbits(
            folder,
            f"images-{k}",
            f"Training {recipe.networks} CNNs, images in {k} orientations",
            recipe,
            images,
            fine,
            settings.recorded_epochs,
            augmentation=rotations(k),
            seed=settings.seed,
        )
        for k in settings.image_orders
    }
    return ImageEnsembles(
        images, fine, recipe, folder.stages(trained), np.array(settings.recorded_epochs), float(cost["seconds"]),
        float(cost["multiplications"]),
    )  # fmt: skip


def _steps(settings: Settings) -> np.ndarray:
    return np.array(sorted(set(settings.steps)))


def _network(settings: Settings, width: int, outputs: int) -> nn.Sequential:
    return mlp(width, settings.hidden_layers, outputs, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _kappa(settings: Settings, images: np.ndarray, task: Task) -> Arrays:
    # every ring turns alike, so that one is enough
    shapes = {"rings": (1, settings.samples, 1), "pixels": (*images.shape[1:-1], 1)}
    arrays: Arrays = {}
    for i, (way, shape) in enumerate(shapes.items()):
        matrices = representation(_action(way, settings.angles), shape)
        arrays[way] = np.array([coarseness(matrices, k) for k in settings.orders])
        task.step(i + 1, len(shapes))
    changes = _action("pixels", settings.angles).resampling_error(images).values.mean(axis=1)
    return {**arrays, "round_trip": np.where(changes < 1e-12, 0, changes)}


def _closed(
    settings: Settings, way: str, train: np.ndarray, y: np.ndarray, x: np.ndarray, k: int, task: Task
) -> Arrays:
    fine, times = _action(way, settings.angles), _steps(settings)
    model = gradient_descent(_network(settings, 1, y.shape[1]), train, y, settings.rate, augmentation=_action(way, k))
    predict = lambda z: model.predict(z, time=times)
    means = orbit_means(model, fine, x, times)
    arrays: Arrays = {
        "rate": np.array(model.learning_rate),
        "profile": np.linalg.norm(means - means[:, :1], axis=-1),
        "size": np.sqrt((means[:, 0] ** 2).sum(axis=-1).mean(axis=-1)),
    }
    if way == "pixels":
        back = predict(there_and_back(fine, x))
        arrays["floor"] = np.linalg.norm(by_element(fine, back) - means[:, :1], axis=-1)
    else:
        turn = lambda z, angle: np.asarray(actions.turn_rings(z, np.array([angle])))[0]
        gradients = largest_gradients(predict, turn, x, k, settings.points)
        arrays["constant"] = gradients * np.sqrt((x**2).sum(axis=(1, 2, 3)))
    return arrays


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
