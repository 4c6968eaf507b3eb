"""What image ensembles trained with C_k answer at every angle, what they cost, and the scores that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.statistics import Estimate
from equitangents_studies.common.image_ensembles import Recipe, floor_predictions
from equitangents_studies.common.images import Images
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import table_mean
from equitangents_studies.framework.stages import Arrays


@dataclass(frozen=True, eq=False)
class ImageEnsembles:
    """`trained[k]` are the arrays of `image_ensembles.answers` after training with C_k, at the E epochs of `epochs`.

    A step costs `seconds` of processors and `multiplications`. Agreement is the share of all angles at which the
    predicted class is that of the image as it is: orbit same predictions over the number of angles.
    """

    images: Images
    action: Action
    epochs: np.ndarray
    recipe: Recipe
    trained: dict[int, Arrays]
    seconds: float
    multiplications: float

    @property
    def orders(self) -> tuple[int, ...]:
        """Every k."""
        return tuple(self.trained)

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets of inputs, "test" first."""
        return tuple(self.images.sets)

    @property
    def angles(self) -> int:
        """How many angles are tested."""
        return int(self.action.group.order)

    def labels(self, k: int, name: str) -> np.ndarray:
        """Predicted classes of the ensembles' means, (E, R, angles, N)."""
        return self.trained[k][f"labels_{name}"]

    def agreement(self, k: int, name: str) -> Float[np.ndarray, "epochs ensembles n"]:
        """Agreement of the ensembles' predictions over the orbit, for every recorded epoch, ensemble and image."""
        return same_predictions(self.action, self.labels(k, name)) / self.angles

    def floor(self, k: int, name: str) -> Float[np.ndarray, "epochs ensembles n"]:
        """Agreement of the ensembles where images are turned there and back, which only resampling changes."""
        return floor_predictions(self.action, self.labels(k, name), self.trained[k][f"floor_{name}"]) / self.angles

    def of_members(self, k: int, name: str) -> Float[np.ndarray, "epochs ensembles n"]:
        """Agreement of single networks, mean over the members of each ensemble."""
        return self.trained[k][f"members_{name}"] / self.angles

    def error(self, k: int) -> Float[np.ndarray, "epochs ensembles n"]:
        """Share of all angles at which a test image is given a wrong class."""
        return (self.labels(k, "test") != self.images.test_y).mean(axis=2)

    def floor_error(self, k: int) -> Float[np.ndarray, "epochs ensembles n"]:
        """The error of the ensembles where images are turned there and back, which only resampling changes."""
        return (self.trained[k]["floor_test"] != self.images.test_y).mean(axis=2)

    def change(self, k: int, name: str, which: str = "change") -> Float[np.ndarray, "epochs ensembles"]:
        """Root mean square change of the mean over angles and inputs, relative to its size; or its "floor_change"."""
        return np.sqrt((self.trained[k][f"{which}_{name}"] ** 2).mean(axis=-1))

    def steps(self, k: int) -> np.ndarray:
        """Training steps up to every recorded epoch."""
        return np.array([self.recipe.steps(k * len(self.images.train_x), int(e)) for e in self.epochs])

    def difference(self, a: np.ndarray, b: np.ndarray, level: float = 0.95) -> Estimate:
        """The mean of a − b, paired, of shares (R, N)."""
        return table_mean(a - b, (-1.0, 1.0), level)

    def mean(self, shares: np.ndarray, level: float = 0.95) -> Estimate:
        """The mean of shares (R, N)."""
        return table_mean(shares, (0.0, 1.0), level)
