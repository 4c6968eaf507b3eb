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
    """Outputs of all members on every input set of `record` after the epochs `record_at`, the last of which ends it.

    Arrays are (times, members, n, *outputs), 0 is before training; with `orbits` inputs are recorded on their whole
    orbits, (times, members, |G|, n, outputs). `keep` makes of them the arrays of a stage. `options` are parameters of
    `DeepEnsemble`; without, it is full-batch gradient descent. A run that left something in `checkpoints` goes on from
    there, to the same bits.
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
