"""Trained members: what a run leaves, of one process or put together from several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from equitangents._types import Params, Tree
from equitangents.ensembles.training.run import Run


@dataclass(frozen=True)
class Trained:
    """Parameters and starts stacked over members, losses (epochs, members), outputs recorded at some epochs.

    `chunk`: members that shared a call.
    """

    params: Params
    start: Tree
    history: np.ndarray
    recorded: dict[str, np.ndarray]
    recorded_epochs: list[int]
    chunk: int


def trained(run: Run) -> Trained:
    """What a run that came to its end leaves."""
    return Trained(run.params(), run.start(), run.history, run.recorded, run.recorded_epochs, run.chunk)


def joined(parts: Sequence[Trained]) -> Trained:
    """The members of all parts, in order."""
    first = parts[0]
    stacked = lambda *leaves: np.concatenate(leaves)
    names = first.recorded
    return Trained(
        jax.tree.map(stacked, *(part.params for part in parts)),
        jax.tree.map(stacked, *(part.start for part in parts)),
        np.concatenate([part.history for part in parts], axis=1),
        {name: np.concatenate([part.recorded[name] for part in parts], axis=1) for name in names},
        first.recorded_epochs,
        first.chunk,
    )
