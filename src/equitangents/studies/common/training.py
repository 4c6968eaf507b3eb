"""Training an ensemble for a study: outputs recorded on the way, resumable, with a bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.ensembles import DeepEnsemble, Variation
from equitangents.studies.framework.progress import Task

_CHECKPOINTS = 10  # in one training, at most


def train_recorded(
    net: Any,
    x: np.ndarray,
    y: np.ndarray,
    *,
    augmentation: Action | None,
    members: int,
    optimizer: str,
    learning_rate: float,
    epochs: int,
    record: Mapping[str, np.ndarray],
    record_at: Sequence[int] | np.ndarray,
    checkpoints: Path,
    task: Task,
    loss: str = "mse",
    batch_size: int | None = None,
    label_action: Action | None = None,
    zero_output: bool = False,
    variation: Variation | None = None,
    seed: int = 0,
) -> dict[str, Float[np.ndarray, "times members n outputs"]]:
    """Outputs of all members on every input set of `record` after the epochs `record_at` (0: before training).

    A run that left something in `checkpoints` goes on from there, to the same bits.
    """
    model = DeepEnsemble(
        net,
        members=members,
        augmentation=augmentation,
        label_action=label_action,
        zero_output=zero_output,
        variation=variation,
        optimizer=optimizer,
        learning_rate=learning_rate,
        epochs=epochs,
        batch_size=batch_size,
        loss=loss,
        seed=seed,
        checkpoint_dir=checkpoints,
        checkpoint_every=max(1, -(-epochs // _CHECKPOINTS)),
        callback=lambda epoch, state: task.step(epoch, epochs),
    )
    model.fit(x, y, record=dict(record), record_at=[int(t) for t in record_at], resume=True)
    return dict(model.recorded_)
