"""Ensembles trained on systematic and on random group elements, for equally many steps.

complete   every epoch shows all |G| elements of every image
anew       every visit of an image shows an element drawn anew, for each member
spaced     b equally spaced elements, the subgroup of order b, of every image
drawn      b random elements of each image's own, drawn once, the same for all members
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.actions import subset
from equitangents_studies.common.image_ensembles import rotations, train_on_orbits
from equitangents_studies.common.images import Images, load_images
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.common.sampled_groups import sample
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.stages import Stage
from equitangents_studies.sampling.settings import Settings
from equitangents_studies.sampling.trained_results import TrainedEnsembles, titles


def trained_ensembles(settings: Settings, folder: RunFolder) -> TrainedEnsembles:
    """One ensemble for every way and repetition, each a stage of its own."""
    images = load_images(settings.images, folder.data_dir)
    ways = titles(settings.image_order, settings.image_budget)
    repetitions = range(settings.repetitions)
    work = {(way, r): _trained(settings, folder, way, r) for way in ways for r in repetitions}
    done = folder.stages(work)
    found = {way: [done[way, r] for r in repetitions] for way in ways}
    gather = lambda stages: {key: np.stack([stage[key][0, 0] for stage in stages]) for key in stages[0]}
    steps = {way: settings.recipe.steps(*visits(settings, way, len(images.train_x))) for way in ways}
    return TrainedEnsembles(
        images=images,
        action=rotations(settings.image_order),
        recipe=settings.recipe,
        budget=settings.image_budget,
        answers={way: gather(stages) for way, stages in found.items()},
        steps=steps,
    )


def visits(settings: Settings, way: str, images: int) -> tuple[int, int]:
    """(samples an epoch, epochs): together the same for every way."""
    copies = {"complete": settings.image_order, "anew": 1}.get(way, settings.image_budget)
    return copies * images, settings.epochs * settings.image_order // copies


def _trained(settings: Settings, folder: RunFolder, way: str, repetition: int) -> Stage:
    images = load_images(settings.images, folder.data_dir, draw=repetition)
    title = titles(settings.image_order, settings.image_budget)[way].capitalize()
    return train_on_orbits(
        folder,
        f"trained-{way}-{repetition}",
        f"{title}, repetition {repetition + 1} of {settings.repetitions}",
        settings.recipe,
        images,
        rotations(settings.image_order),
        [visits(settings, way, len(images.train_x))[1]],
        seed=settings.seed + repetition,
        **shown(settings, way, images, repetition),
    )


def shown(settings: Settings, way: str, images: Images, repetition: int) -> dict[str, Any]:
    """The augmentation of a `DeepEnsemble`, or the images as they were turned once."""
    action, budget = rotations(settings.image_order), settings.image_budget
    if way == "complete":
        return {"augmentation": action}
    if way == "anew":
        return {"augmentation": action, "augmentation_mode": "random"}
    if way == "spaced":
        return {"augmentation": subset(action, np.arange(budget) * (settings.image_order // budget))}
    rng = np.random.default_rng((settings.seed, repetition))
    alike = np.full((settings.image_order, len(images.train_x)), 1 / settings.image_order)
    rows = sample("own", budget, alike, rng).rows
    return {
        "x": orbit_batch(action, images.train_x)[rows],
        "y": np.tile(images.targets, (settings.image_order, 1))[rows],
    }
