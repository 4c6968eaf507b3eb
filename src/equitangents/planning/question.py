"""From a file of data and a few words to what `plan_ensemble` needs: a fitted ensemble, an action and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents import actions, nn
from equitangents._types import FileName
from equitangents.ensembles import (
    DeepEnsemble,
    DeepEnsembleClassifier,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
)
from equitangents.errors import InvalidArgumentError
from equitangents.foreign_files import read_named
from equitangents.planning.pilot import are_labels
from equitangents.validation import check_whole

NETS = ("mlp", "cnn")


@dataclass(frozen=True, eq=False)
class PlanningData:
    """Training data x, y and the inputs (with targets, if known) whose orbits are to be treated alike."""

    x: np.ndarray
    y: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray | None

    @property
    def labels(self) -> bool:
        """Whether y are class labels: whole numbers, text or truth values, in one column."""
        return are_labels(self.y)

    @property
    def outputs(self) -> int:
        """Outputs of a network for these targets: one a class, or one a column."""
        if self.labels:
            return len(np.unique(self.y))
        return 1 if self.y.ndim == 1 else int(self.y.shape[-1])


def read_data(path: FileName, most_inputs: int) -> PlanningData:
    """Arrays `x`, `y` and, if there, `x_test`, `y_test` of an .npz file; at most `most_inputs` inputs are planned for.

    Without `x_test` the training inputs are planned for.
    """
    check_whole("inputs", most_inputs, 1)
    arrays = read_named("data", path, ("x", "y"))
    tested = "x_test" in arrays
    targets = arrays.get("y_test") if tested else arrays["y"]
    return PlanningData(
        arrays["x"],
        arrays["y"],
        arrays["x_test" if tested else "x"][:most_inputs],
        None if targets is None else targets[:most_inputs],
    )


def network(kind: str, depth: int, W_std: float, b_std: float, width: int = 1, outputs: int = 1) -> nn.Sequential:
    """`depth` hidden layers of an MLP, or of 3×3 convolutions that are then flattened; ReLU. At infinite width neither
    `width` nor `outputs` matters.
    """
    if kind not in NETS:
        raise InvalidArgumentError("net", kind, " or ".join(map(repr, NETS)))
    check_whole("depth", depth, 1)
    check_whole("width", width, 1)
    readout = nn.Dense(outputs, W_std=W_std)
    if kind == "mlp":
        dense = [nn.Dense(width, W_std=W_std, b_std=b_std), nn.Relu()]
        return nn.Sequential(nn.Flatten(), *(depth * dense), readout)
    convolutions = [nn.Conv(width, (3, 3), W_std=W_std, b_std=b_std), nn.Relu()]
    return nn.Sequential(*(depth * convolutions), nn.Flatten(), readout)


def fit(
    data: PlanningData, net: nn.Sequential, action: actions.Action | None, **settings: Any
) -> InfiniteEnsemble | InfiniteEnsembleClassifier:
    """The ensemble on the data: a classifier where y are labels. `action`: of augmentation, or None."""
    kind = InfiniteEnsembleClassifier if data.labels else InfiniteEnsemble
    return kind(net, augmentation=action, **settings).fit(data.x, data.y)


def pilot(
    data: PlanningData,
    net: nn.Sequential,
    action: actions.Action | None,
    epochs: int,
    learning_rate: float,
    seed: int,
) -> DeepEnsemble | DeepEnsembleClassifier:
    """The ensemble that a pilot is trained of, by full-batch gradient descent on the mean square."""
    kind = DeepEnsembleClassifier if data.labels else DeepEnsemble
    how: dict[str, Any] = {"optimizer": "gd", "loss": "mse", "epochs": epochs, "learning_rate": learning_rate}
    return kind(net, augmentation=action, seed=seed, **how)
