"""What ensembles trained on systematic and on random group elements answer, and the differences between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.common.image_ensembles import Recipe, floor_predictions
from equitangents_studies.common.images import Images
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import table_mean
from equitangents_studies.framework.stages import Arrays

PAIRS = (("complete", "anew"), ("spaced", "drawn"))  # systematic, random


def titles(order: int, budget: int) -> dict[str, str]:
    """What each way of choosing elements shows of every image."""
    return {
        "complete": f"all {order} elements",
        "anew": "a random element at every visit",
        "spaced": f"{budget} equally spaced elements",
        "drawn": f"{budget} random elements of each image’s own",
    }


@dataclass(frozen=True, eq=False)
class TrainedEnsembles:
    """`answers[way]` are the arrays of `image_ensembles.answers`, (R, …) over repetitions, after the last epoch.

    `steps[way]` are the training steps of every network.
    """

    images: Images
    action: Action
    recipe: Recipe
    budget: int
    answers: dict[str, Arrays]
    steps: dict[str, int]

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.action.group.order)

    @property
    def repetitions(self) -> int:
        """R."""
        return len(self.answers["complete"]["labels_test"])

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets of inputs, "test" first."""
        return tuple(self.images.sets)

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the ways of choosing elements."""
        return titles(self.order, self.budget)

    def accuracy(self, way: str) -> Float[np.ndarray, "repetitions n"]:
        """Share of the orbit of every test image on which the ensemble is right."""
        return (self.answers[way]["labels_test"] == self.images.test_y).mean(axis=1)

    def floor_accuracy(self, way: str) -> Float[np.ndarray, "repetitions n"]:
        """Accuracy where images are turned there and back, which only resampling changes."""
        return (self.answers[way]["floor_test"] == self.images.test_y).mean(axis=1)

    def agreement(self, way: str, name: str) -> Float[np.ndarray, "repetitions n"]:
        """Orbit same predictions of the ensembles."""
        return same_predictions(self.action, self.answers[way][f"labels_{name}"])

    def floor(self, way: str, name: str) -> Float[np.ndarray, "repetitions n"]:
        """Agreement where images are turned there and back, which only resampling changes."""
        found = self.answers[way]
        return floor_predictions(self.action, found[f"labels_{name}"], found[f"floor_{name}"])

    def of_members(self, way: str, name: str) -> Float[np.ndarray, "repetitions n"]:
        """Agreement of single networks, mean over the members."""
        return self.answers[way][f"members_{name}"]

    def more_accurate(self, a: str, b: str, level: float = 0.95) -> Estimate:
        """Accuracy of one way minus that of another, on the same images in the same repetitions."""
        return table_mean(self.accuracy(a) - self.accuracy(b), (-1.0, 1.0), level)

    def steadier(self, a: str, b: str, name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions of one way minus those of another, likewise."""
        most = self.order - 1.0
        return table_mean(self.agreement(a, name) - self.agreement(b, name), (-most, most), level)

    def steadier_overall(self, a: str, b: str, level: float = 0.95) -> Estimate:
        """The mean of these differences over all sets, each with the same weight."""
        each = [(self.agreement(a, name) - self.agreement(b, name)).mean(axis=1) for name in self.sets]
        most = self.order - 1.0
        return t_interval(np.mean(each, axis=0), level, (-most, most))
