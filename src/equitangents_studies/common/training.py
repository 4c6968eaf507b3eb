"""Training an ensemble for a study: outputs recorded on the way, resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.actions import Action
from equitangents.ensembles import DeepEnsemble
from equitangents.extending import Network
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.framework.study import Arrays, Task

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
    orbits: Action | None = None,
    keep: Callable[[Arrays], Arrays] = dict,
    **options: Any,
) -> Arrays:
    """What `trained` recorded, to the last of `record_at`, by full-batch gradient descent unless `options` differ.

    With `orbits` inputs are recorded on their whole orbits, outputs (times, members, |G|, n, outputs). `keep` makes of
    what was recorded the arrays of a stage.
    """
    inputs = record if orbits is None else {name: orbit_batch(orbits, z) for name, z in record.items()}
    how = {"optimizer": "gd", "epochs": int(max(record_at)), "checkpoints": checkpoints, **options}
    recorded = trained(net, x, y, record=inputs, record_at=record_at, task=task, **how).recorded_
    return keep(recorded if orbits is None else {name: by_element(orbits, z) for name, z in recorded.items()})


def trained(
    net: Network,
    x: np.ndarray,
    y: np.ndarray,
    *,
    epochs: int,
    record: Mapping[str, np.ndarray],
    record_at: Sequence[int] | np.ndarray,
    checkpoints: Path,
    task: Task,
    **ensemble: Any,
) -> DeepEnsemble:
    """An ensemble that recorded the outputs of all members on every input set of `record` after the epochs `record_at`.

    `recorded_[name]` is (times, members, n, *outputs); 0 is before training. `ensemble` holds further
    parameters of `DeepEnsemble`. A run that left something in `checkpoints` goes on from there, to the same bits.
    """
    model = DeepEnsemble(
        net,
        epochs=epochs,
        checkpoint_dir=checkpoints,
        checkpoint_every=max(1, -(-epochs // _CHECKPOINTS)),
        progress=lambda done, total, _: task.step(done, total),
        **ensemble,
    )
    model.fit(x, y, record=dict(record), record_at=[int(t) for t in record_at], resume=True)
    return model
