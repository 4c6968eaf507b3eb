"""Ensembles that studies train: their outputs, recorded on the way; small CNNs on rotated images, on whole orbits.

Images are rotated inside the inscribed disc, from which a full rotation loses nothing. Every score comes with its noise
floor of resampling: the same score with ρ(g)⁻¹ρ(g)x in place of ρ(g)x, so that an invariant predictor differs from 0
only by the errors of resampling.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, nn
from equitangents.ensembles import DeepEnsemble
from equitangents.extending import Network
from equitangents_studies.baselines.networks import patch_cnn
from equitangents_studies.common.images import Chosen, Images, load_images
from equitangents_studies.common.orbits import by_element, orbit_batch, same_predictions, there_and_back
from equitangents_studies.framework.study import Arrays, NamedStage, RunFolder, Task, check

_CHECKPOINTS = 10  # in one training, at most


def train_to_last(
    checkpoints: Path,
    net: Network,
    x: np.ndarray,
    y: np.ndarray,
    task: Task,
    *,
    record: Mapping[str, np.ndarray],
    record_at: Sequence[int] | np.ndarray,
    orbits: actions.Action | None = None,
    keep: Callable[[Arrays], Arrays] = dict,
    **options: Any,
) -> Arrays:
    """Outputs of all members on every input set of `record` after the epochs `record_at`; the last one ends training.

    Arrays are (times, members, n, *outputs); time 0 is before training. With `orbits` whole orbits of inputs are
    recorded, (times, members, |G|, n, outputs). `keep` maps the outputs to the arrays of a stage. `options` are
    parameters of `DeepEnsemble`; the default is full-batch gradient descent. Training resumes from `checkpoints`, to
    the same bits.
    """
    inputs = dict(record) if orbits is None else {name: orbit_batch(orbits, z) for name, z in record.items()}
    how: dict[str, Any] = {"optimizer": "gd", "epochs": int(max(record_at)), **options}
    model = DeepEnsemble(
        net,
        checkpoint_dir=checkpoints,
        checkpoint_every=max(1, -(-how["epochs"] // _CHECKPOINTS)),
        progress=lambda done, total, _: task.step(done, total),
        **how,
    )
    recorded = model.fit(x, y, record=inputs, record_at=[int(t) for t in record_at], resume=True).recorded_
    return keep(recorded if orbits is None else {name: by_element(orbits, z) for name, z in recorded.items()})


@dataclass(frozen=True)
class EnsembleRecipe:
    """How all ensembles of a study are trained: by Adam on the squared loss, from the same initial weights.

    `ensembles` disjoint ensembles of `members` networks are trained together.
    """

    patch: int
    channels: tuple[int, ...]
    members: int
    ensembles: int
    batch: int
    learning_rate: float

    @property
    def networks(self) -> int:
        """Members of all ensembles."""
        return self.members * self.ensembles


def check_images(chosen: Chosen, recipe: EnsembleRecipe, data_dir: Path | None) -> None:
    """Require an image size that patches fill, available foreign sets, and at least one layer."""
    check(len(recipe.channels) >= 1, "channels", recipe.channels, "a list with an entry per layer")
    side = load_images(chosen, data_dir).train_x.shape[1]
    check(side % recipe.patch == 0, "patch", recipe.patch, f"a divisor of the images' {side} pixels")


def rotations(n: int) -> actions.Action:
    """C_n on images, cut to the inscribed disc."""
    return actions.image_rotations(n, mask="circle")


def network(recipe: EnsembleRecipe, classes: int) -> nn.Sequential:
    """The CNN of all ensembles."""
    return patch_cnn(recipe.channels, classes, patch=recipe.patch, padding="zero", output_std=0.5)


def train_on_orbits(
    folder: RunFolder,
    stage: str,
    title: str,
    recipe: EnsembleRecipe,
    images: Images,
    action: actions.Action,
    epochs: Sequence[int],
    *,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    seed: int,
    **augmentation: Any,
) -> NamedStage:
    """A stage that trains all networks of the recipe and predicts on the orbits of every set after each of `epochs`.

    Networks train on (x, y), by default the training images. Arrays are those of `answers`, such as "labels_test".
    """
    train = partial(
        train_to_last,
        folder.checkpoints(stage),
        network(recipe, images.classes),
        images.train_x if x is None else x,
        images.targets if y is None else y,
        record_at=epochs,
        members=recipe.networks,
        optimizer="adam",
        learning_rate=recipe.learning_rate,
        batch_size=recipe.batch,
        seed=seed,
        **augmentation,
    )
    return NamedStage(stage, title, partial(_answers_of, train, recipe, images, action))


def _answers_of(
    train: Callable[..., Arrays], recipe: EnsembleRecipe, images: Images, action: actions.Action, task: Task
) -> Arrays:
    rotated = {name: orbit_batch(action, z) for name, z in images.sets.items()}
    back = {f"back_{name}": there_and_back(action, z) for name, z in images.sets.items()}
    recorded = train(task, record={**rotated, **back})
    found: Arrays = {}
    for name in images.sets:
        of = answers(action, recipe.ensembles, recorded[name], recorded[f"back_{name}"])
        found |= {f"{key}_{name}": values for key, values in of.items()}
    return found


def answers(
    action: actions.Action,
    ensembles: int,
    rotated: Float[np.ndarray, "epochs networks order_n classes"],
    back: Float[np.ndarray, "epochs networks order_n classes"],
) -> Arrays:
    """Predictions on orbits: E epochs, R ensembles of M members, |G| elements, N inputs.

    labels, noise_floor (E, R, |G|, N): classes that the ensembles' means predict at ρ(g)x and at ρ(g)⁻¹ρ(g)x; members
    (E, R, N): orbit same predictions of a member, mean over the members of each ensemble.
    """
    groups = lambda y: by_element(action, y.reshape(len(y), ensembles, -1, *y.shape[2:]))
    each, returned = groups(rotated), groups(back)
    mean, mean_back = each.mean(axis=2), returned.mean(axis=2)
    return {
        "labels": mean.argmax(axis=-1).astype(np.int16),
        "noise_floor": mean_back.argmax(axis=-1).astype(np.int16),
        "members": same_predictions(action, each.argmax(axis=-1)).mean(axis=2),
    }


@dataclass(frozen=True, eq=False)
class AnswersOnOrbits:
    """Predictions of one recipe's ensembles on the orbits of every set, by training method (`way`).

    `answers[way]` are the arrays of `answers`, (…, |G|, N). With `SHARES` agreement is orbit same predictions / |G|.
    """

    images: Images
    action: actions.Action
    recipe: EnsembleRecipe
    answers: Mapping[Any, Arrays]

    SHARES: ClassVar[bool] = False

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.action.group.order)

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets of inputs, "test" first."""
        return tuple(self.images.sets)

    def labels(self, way: Hashable, name: str) -> Int[np.ndarray, "... order n"]:
        """Predicted classes of the ensembles' means."""
        return self.answers[way][f"labels_{name}"]

    def agreement(self, way: Hashable, name: str) -> Float[np.ndarray, "... n"]:
        """Agreement of the ensembles' predictions over the orbit, for every image."""
        return self._counted(same_predictions(self.action, self.labels(way, name)))

    def noise_floor(self, way: Hashable, name: str) -> Float[np.ndarray, "... n"]:
        """Agreement for images rotated by g and back, which only resampling changes."""
        found = noise_floor_predictions(self.action, self.labels(way, name), self.answers[way][f"noise_floor_{name}"])
        return self._counted(found)

    def of_members(self, way: Hashable, name: str) -> Float[np.ndarray, "... n"]:
        """Agreement of single networks, mean over the members of each ensemble."""
        return self._counted(self.answers[way][f"members_{name}"])

    def accuracy(self, way: Hashable) -> Float[np.ndarray, "... n"]:
        """Share of the orbit of every test image on which an ensemble is right."""
        return (self.labels(way, "test") == self.images.test_y).mean(axis=-2)

    def noise_floor_accuracy(self, way: Hashable) -> Float[np.ndarray, "... n"]:
        """Accuracy for images rotated by g and back, which only resampling changes."""
        return (self.answers[way]["noise_floor_test"] == self.images.test_y).mean(axis=-2)

    def _counted(self, agreement: np.ndarray) -> np.ndarray:
        return agreement / self.order if self.SHARES else agreement


def noise_floor_predictions(
    action: actions.Action, labels: Int[np.ndarray, "... order n"], noise_floor: Int[np.ndarray, "... order n"]
) -> Float[np.ndarray, "... n"]:
    """Orbit same predictions for images rotated by g and back."""
    return (noise_floor == labels[..., action.group.identity, None, :]).sum(axis=-2).astype(np.float64)
