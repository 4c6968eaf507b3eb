"""What was measured of energies, forces and tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.forces.water_tensors import WaterTensors

TARGETS = ("energies", "forces", "both")


@dataclass(frozen=True, eq=False)
class Results:
    """Absolute errors on test frames by target: `energies` (sizes, frames) in eV, `forces` the same in eV/Å, mean over
    components. `gradient`, `curl`, `turned_energies`, `turned_forces`: relative violations of what must hold, the last
    two for every turn.
    `water` holds what was measured on dipoles and polarisabilities of water, and is empty without a file. `spread` is
    the mean absolute deviation of (energies, force components) from their mean.
    """

    energies: dict[str, np.ndarray]
    forces: dict[str, np.ndarray]
    gradient: float
    curl: float
    turned_energies: np.ndarray
    turned_forces: np.ndarray
    spread: tuple[float, float]
    label: str
    water: dict[str, WaterTensors]


def error_ratio(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Mean of a over mean of b, paired over test frames."""
    return bootstrap(np.stack([a, b], axis=1), lambda m: m[:, 0] / m[:, 1])


def guessed(results: Results, target: str) -> Estimate:
    """Error of forces with the most frames over that of always guessing the mean of the test frames."""
    return bootstrap(results.forces[target][-1]).times(1 / results.spread[1])
