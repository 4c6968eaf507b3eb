"""Finite networks trained on all moved copies: how far single ones, and their mean, are from moving as they should."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, second_moment_share
from equitangents_studies.common.moving_outputs.growing_sets import Score
from equitangents_studies.common.moving_outputs.kernels import (
    PairKernel,
    Symmetry,
    moved_copies,
    moved_kernels,
    moved_targets,
)
from equitangents_studies.common.training import train_stage
from equitangents_studies.framework.study import Arrays, RunFolder

_SCORED = "scored"


@dataclass(frozen=True)
class Training:
    """`members` networks, full-batch gradient descent on all copies of `inputs` inputs, recorded after `steps`.

    The learning rate is `rate` times the largest at which descent in the limit of infinite width is stable.
    """

    net: Any
    members: int
    inputs: int
    steps: tuple[int, ...]
    seed: int
    rate: float = 0.3


@dataclass(frozen=True, eq=False)
class Trained:
    """`off[set]` (steps, members, values) is f(ρ(g)x) − ρ(g)f(x), all g but the identity; `outputs[set]` are f(x).

    `scores` are those of the members' mean on test inputs after the last step.
    """

    training: Training
    off: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    scores: Mapping[str, float]

    def share(self, name: str, step: int, level: float = 0.95) -> Estimate:
        """(E off)² / E off² over networks: what is left of the squared error of single ones in infinitely many."""
        off = self.off[name][step]
        return second_moment_share(off, off, confidence=level)

    def errors(self, name: str, step: int) -> tuple[float, float]:
        """Root mean square of `off` relative to that of single networks' outputs: of these, and of the mean of all."""
        off, f = self.off[name][step], self.outputs[name][step]
        of = lambda a: math.sqrt((a**2).mean() / (f**2).mean())
        return of(off), of(off.mean(axis=0))


def train(
    folder: RunFolder,
    name: str,
    training: Training,
    kernel: PairKernel,
    symmetry: Symmetry,
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    test: tuple[np.ndarray, np.ndarray],
    sets: Mapping[str, Float[np.ndarray, "some ..."]],
    positions: tuple[int, ...],
    scores: Mapping[str, Score],
) -> Trained:
    """A stage of the run: `training` on the first of x and y, recorded on the orbits of `sets` and on test inputs."""
    t, x, y = training, x[: training.inputs], y[: training.inputs]
    K = moved_kernels(kernel, {"": symmetry}, x, x, positions)[""]
    largest = 2 * len(x) / float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    record = {key: moved_copies(symmetry, z) for key, z in sets.items()}
    arrays = train_stage(
        folder,
        f"{name}-trained",
        f"{name}: {t.members} networks",
        t.net,
        x,
        y,
        record={**record, _SCORED: test[0]},
        record_at=t.steps,
        keep=partial(_kept, symmetry, positions, {key: len(z) for key, z in sets.items()}, test[1], scores),
        augmentation=symmetry.inputs,
        label_action=symmetry.outputs,
        members=t.members,
        learning_rate=t.rate * largest,
        dtype="float64",
        seed=t.seed,
    )
    return Trained(
        training,
        {key: arrays[f"off_{i}"] for i, key in enumerate(sets)},
        {key: arrays[f"outputs_{i}"] for i, key in enumerate(sets)},
        {score: float(arrays[f"score_{score}"]) for score in scores},
    )


def _kept(
    symmetry: Symmetry,
    positions: tuple[int, ...],
    sizes: Mapping[str, int],
    target: np.ndarray,
    scores: Mapping[str, Score],
    recorded: Arrays,
) -> Arrays:
    """Deviations and outputs of every set, and scores of the mean."""
    elements = len(symmetry.chosen)
    at = symmetry.chosen.index(symmetry.inputs.group.identity)
    others = [i for i in range(elements) if i != at]
    found: Arrays = {}
    for i, (key, n) in enumerate(sizes.items()):
        f = np.asarray(recorded[key], np.float64)
        f = f.reshape(*f.shape[:2], elements, n, *f.shape[3:])
        first = f[:, :, at]
        flat = first.reshape(-1, *first.shape[3:])
        moved = moved_targets(symmetry, flat, positions).reshape(elements, *first.shape)
        off = f - np.moveaxis(moved, 0, 2)
        found[f"off_{i}"] = off[:, :, others].reshape(*f.shape[:2], -1)
        found[f"outputs_{i}"] = first.reshape(*f.shape[:2], -1)
    mean = np.asarray(recorded[_SCORED][-1], np.float64).mean(axis=0).reshape(target.shape)
    return found | {f"score_{name}": np.array(score.of(mean, target)) for name, score in scores.items()}
