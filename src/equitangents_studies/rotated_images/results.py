"""What a run of `rotated-images` recorded, and the scores that follow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from equitangents import actions
from equitangents_studies.common.images import Images
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.rotated_images.settings import Settings


@dataclass(frozen=True, eq=False)
class Results:
    """Predicted classes on orbits, by set of inputs ("test" and the foreign ones).

    `members[set]` (E, M, |G|, N), `mean[set]` and `infinite[set]` (E, |G|, N) at the E epochs of `epochs`;
    `outputs[set]` (M, |G|, N, K) are the members' outputs after the last epoch. `infinite` is empty where it was left
    out; of the mean that it predicts classes by, `deviation[set]` (E,) is the largest change under any element and
    `margin[set]` (E,) the smallest lead of the largest output over the second, both relative to the root mean square
    of the outputs. `predicted[set]` (sizes, 3) are the orbit same predictions that theory expects of M members after
    the last epoch, with the interval that holds 95 % of ensembles, for exact actions, squared loss and an infinitely
    wide ensemble with the same training images. `narrow[set]` (M, |G|, N) are classes from narrower members after the
    last epoch. `floor[set]` (|G|, n) are classes from an invariant function on the first n inputs, for actions that
    resample.
    """

    images: Images
    action: actions.Action
    epochs: np.ndarray
    learning_rate: float
    members: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    infinite: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray] = field(default_factory=dict)
    floor: dict[str, np.ndarray] = field(default_factory=dict)
    narrow: dict[str, np.ndarray] = field(default_factory=dict)
    deviation: dict[str, np.ndarray] = field(default_factory=dict)
    margin: dict[str, np.ndarray] = field(default_factory=dict)

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions of every input."""
        return same_predictions(self.action, labels)

    @property
    def scales(self) -> dict[str, tuple[float, float]]:
        """Between which values either score lies."""
        return {"agreement": (1.0, float(self.action.group.order)), "accuracy": (0.0, 1.0)}

    def accuracy(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Share of the orbit of every test input on which the prediction is right."""
        return (labels == self.images.test_y).mean(axis=-2)


def ensemble_labels(settings: Settings, outputs: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Class predicted by the mean over members: of outputs for squared loss, of probabilities for cross-entropy."""
    if settings.loss == "cross_entropy":
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs = outputs / outputs.sum(axis=-1, keepdims=True)
    return outputs.mean(axis=axis).argmax(axis=-1).astype(np.int16)
