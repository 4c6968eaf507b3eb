"""Dipoles and polarisabilities of water from readouts that turn as they do: the part of the study of forces on tensors.

Positions and tensors are turned at random, each molecule in its own way, so that a model that does not know how tensors
turn has nothing to gain from the frame in which the data come.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents.groups import so3
from equitangents.molecules import AtomSignals, Molecules, TensorRegressor
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies import data
from equitangents_studies.common.molecule_kernels import mean_square, so3_network
from equitangents_studies.data.molecules import WATER
from equitangents_studies.framework.study import Arrays, Task, check

KINDS = {"dipoles": "dipole", "polarizabilities": "polarisability"}


@dataclass(frozen=True)
class WaterSettings:
    """`system` is "monomer", "dimer" or "zundel"; models learn from `sizes` molecules and are tested on `test` others.

    `bandlimit`, `scale` and `tolerance` are those of the study's network; the ridge is ten times the tolerance.
    """

    system: str
    sizes: tuple[int, ...]
    test: int
    bandlimit: int
    scale: float
    tolerance: float
    seed: int


@dataclass(frozen=True, eq=False)
class WaterTensors:
    """Absolute errors of test molecules in atomic units, mean over components, (sizes, test).

    `guess` (test,) are those of the simplest model that turns as it must: dipoles of one charge for each element, and
    the mean polarisability times the identity. `turned` are the largest changes of some molecules' predictions that
    turning does not explain, relative to the largest prediction.
    """

    errors: np.ndarray
    guess: np.ndarray
    turned: np.ndarray

    def ratio(self) -> Estimate:
        """Mean error with all molecules over that of the simplest model, paired over test molecules."""
        return bootstrap(np.stack([self.errors[-1], self.guess], axis=1), lambda m: m[:, 0] / m[:, 1])


def check_settings(settings: WaterSettings, data_dir: Path | None) -> None:
    """A system that is known, and molecules enough in its file."""
    check(settings.system in WATER, "water", settings.system, list(WATER))
    check(len(settings.sizes) >= 2 and min(settings.sizes) >= 2, "water_sizes", settings.sizes, "two, of 2 or more")
    check(settings.test >= 2, "water_test", settings.test, "at least 2")
    most = len(data.load_water(settings.system, data_dir)) - settings.test
    check(max(settings.sizes) <= most, "water_sizes", settings.sizes, f"at most {most}")


def turned(tensors: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Vectors (N, 3) or matrices (N, 3, 3), each with its own rotation (N, 3, 3), or all with one (1, 3, 3)."""
    return (turns @ tensors[..., None])[..., 0] if tensors.ndim == 2 else turns @ tensors @ turns.swapaxes(1, 2)


def learn(settings: WaterSettings, data_dir: Path | None, kind: str, task: Task) -> Arrays:
    """The fields of `WaterTensors` for one kind of tensor."""
    whole = data.load_water(settings.system, data_dir)
    order = np.random.default_rng(settings.seed).permutation(len(whole))
    turns = so3(1).random(len(whole), seed=settings.seed)
    molecules = whole.molecules.with_positions(whole.molecules.positions @ turns.swapaxes(1, 2))
    y = turned(getattr(whole, kind), turns)
    test = order[-settings.test :]
    signals = AtomSignals(settings.bandlimit, elements=molecules.elements)
    errors = []
    for i, size in enumerate(settings.sizes):
        train = order[:size]
        scale = settings.scale / mean_square(signals, molecules[train]) ** 0.5
        net = so3_network(settings.bandlimit, scale, settings.tolerance)
        model = TensorRegressor(net, signals=signals, ridge=10 * settings.tolerance)
        found = model.fit(molecules[train], y[train]).predict(molecules[test]).values
        errors.append(_error(found - y[test]))
        task.step(i + 1, len(settings.sizes))
    few = molecules[test[: min(5, len(test))]]
    turn = so3(1).random(1, seed=settings.seed + 1)
    again = model.predict(few.with_positions(few.positions @ turn[0].T)).values
    off = np.abs(again - turned(found[: len(few)], turn)).reshape(len(few), -1).max(axis=1)
    guess = _error(simplest(molecules[train], y[train], molecules[test]) - y[test])
    return {"errors": np.stack(errors), "guess": guess, "turned": off / np.abs(found).max()}


def simplest(train: Molecules, tensors: np.ndarray, test: Molecules) -> np.ndarray:
    """What the simplest models that turn as they must make of the test molecules."""
    if tensors.ndim == 3:
        return np.trace(tensors, axis1=1, axis2=2).mean() / 3 * np.broadcast_to(np.eye(3), (len(test), 3, 3))
    charges = np.linalg.lstsq(_arms(train).reshape(-1, len(train.elements)), tensors.ravel(), rcond=None)[0]
    return _arms(test) @ charges


def _arms(molecules: Molecules) -> np.ndarray:
    """Sums over the atoms of each element of their positions about the mean of all, (N, 3, elements)."""
    x = molecules.positions - molecules.positions.mean(axis=1, keepdims=True)
    of_element = molecules.atomic_numbers[:, :, None] == np.array(molecules.elements)
    return np.einsum("nai,nae->nie", x, of_element.astype(float))


def _error(difference: np.ndarray) -> np.ndarray:
    return np.abs(difference).reshape(len(difference), -1).mean(axis=1)
