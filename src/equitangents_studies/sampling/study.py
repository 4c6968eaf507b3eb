"""How to spend a budget of augmented samples: complete, partial, random and importance-sampled group elements.

The source leaves open what becomes of emergent invariance when the augmentation is not complete. Here the infinitely
wide ensemble is trained on b of |G| elements of every input, chosen in six ways, and compared with the complete one;
and ensembles of CNNs are trained on systematic and on random elements, for which it saw no notable difference.

Ensembles trained on systematic and on random group elements, for equally many steps.

complete   every epoch shows all |G| elements of every image
anew       every visit of an image shows an element drawn anew, for each member
spaced     b equally spaced elements, the subgroup of order b, of every image
drawn      b random elements of each image's own, drawn once, the same for all members
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg

from equitangents import actions
from equitangents.actions import subset
from equitangents.inference import augment_inputs
from equitangents_studies import data
from equitangents_studies.common.image_ensembles import rotations, train_on_orbits
from equitangents_studies.common.images import Images, load_images, standardise
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.sampling.claims import claims
from equitangents_studies.sampling.settings import (
    PRESETS,
    RANDOM,
    SETS,
    STRATEGIES,
    Results,
    Settings,
    TrainedEnsembles,
    check_settings,
    compared,
    importance,
    sample,
    titles,
    trained_means,
)

__all__ = ["PRESETS", "RANDOM", "SETS", "STUDY", "Results", "Settings", "claims", "compared", "measure"]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """The kernel on all pairs once, one small problem for every choice of elements, then trained ensembles."""
    complete = _Complete(settings)
    title = lambda strategy, budget: f"{STRATEGIES[strategy].capitalize()}, {budget} of {settings.order}"
    found = measured(
        folder,
        Part("complete", "Complete augmentation", lambda task: complete.violation()),
        Part("{strategy}-{budget}", title, partial(_choices, settings, complete)),
        levels={
            "strategy": tuple(STRATEGIES),
            "budget": settings.budgets,
            "time": settings.times,
            "inputs": SETS,
        },
    )
    trained = trained_ensembles(settings, folder) if settings.repetitions else None
    return Results.read(found, times=np.array(settings.times), trained=trained)


def _inputs(settings: Settings) -> tuple[dict[str, np.ndarray], np.ndarray]:
    source = data.digits().subset(settings.train_images, settings.test_images, seed=settings.seed)
    noise = data.gaussian_noise(settings.test_images, (8, 8, 1), seed=settings.seed)
    images = {"training": source.train_x, "test": source.test_x, "noise": noise}
    rings = lambda x: actions.to_rings(standardise(x).astype(np.float64), settings.rings, settings.samples)
    return {name: rings(x) for name, x in images.items()}, np.eye(source.classes)[source.train_y] - 1 / source.classes


class _Complete:
    """The kernel on all pairs (g, i), and the mean after complete augmentation; computed when first wanted."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.action = settings, actions.ring_rotations(settings.order)

    @cached_property
    def problem(self) -> dict[str, np.ndarray]:
        """Gram matrix, kernel across, targets, times, and what importance sampling draws from."""
        sets, y = _inputs(self.settings)
        s, x = self.settings, sets["training"]
        net = mlp(1, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)
        everything = augment_inputs(self.action, x)
        gram = np.asarray(net.kernel(everything).ntk)
        points = np.concatenate([orbit_batch(self.action, sets[name]) for name in SETS])
        return {
            "gram": gram,
            "cross": np.asarray(net.kernel(points, everything).ntk),
            "targets": np.tile(y, (s.order, 1)),
            "times": np.array(s.times)
            * len(gram)
            / scipy.linalg.eigvalsh(gram, subset_by_index=[len(gram) - 1] * 2)[0],
            "probabilities": importance(np.sqrt(((np.asarray(self.action.orbit(x)) - x) ** 2).sum(axis=(2, 3, 4)))),
        }

    def means(self, rows: np.ndarray, weights: np.ndarray, samples: int) -> list[np.ndarray]:
        """μ_t on the orbits of every set after training on some rows: (T, |G|, N, K)."""
        p = self.problem
        found = trained_means(
            p["gram"][np.ix_(rows, rows)], p["cross"][:, rows], p["targets"][rows], weights, samples, p["times"]
        )
        return [by_element(self.action, part) for part in np.split(found, len(SETS), axis=1)]

    @cached_property
    def reference(self) -> list[np.ndarray]:
        """The means of complete augmentation."""
        rows = np.arange(len(self.problem["gram"]))
        return self.means(rows, np.ones(len(rows)), len(rows))

    def violation(self) -> Arrays:
        """The violation under complete augmentation, (T, sets)."""
        return {"complete": np.stack([_violation(part) for part in self.reference], axis=-1)}


def _choices(settings: Settings, complete: _Complete, strategy: str, budget: int, task: Task) -> Arrays:
    """Violation and distance of every draw: (draws, T, sets)."""
    probabilities = complete.problem["probabilities"]
    _, n = probabilities.shape
    draws = settings.draws if strategy in RANDOM else 1
    found = np.zeros((2, draws, len(settings.times), len(SETS)))
    for d in range(draws):
        rng = np.random.default_rng((settings.seed, list(STRATEGIES).index(strategy), budget, d))
        chosen = sample(strategy, budget, probabilities, rng)
        means = complete.means(chosen.rows, chosen.weights, n * budget)
        for s, (part, whole) in enumerate(zip(means, complete.reference, strict=True)):
            found[0, d, :, s] = _violation(part)
            off = ((part - whole) ** 2).sum(axis=(1, 2, 3)) / (whole**2).sum(axis=(1, 2, 3))
            found[1, d, :, s] = np.sqrt(off)
        task.step(d + 1, draws)
    return {"violation": found[0], "distance": found[1]}


def _violation(means: np.ndarray) -> np.ndarray:
    """Root mean square of μ(gx) − μ(x), g ≠ e, relative to that of μ: (T, |G|, N, K) → (T,)."""
    off = ((means[:, 1:] - means[:, :1]) ** 2).sum(axis=-1).mean(axis=(1, 2))
    return np.sqrt(off / (means**2).sum(axis=-1).mean(axis=(1, 2)))


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


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
