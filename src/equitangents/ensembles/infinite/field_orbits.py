"""Fields and outputs that turn on orbits {ρ_X(g) x}: what their training says of orbits of points, as fields.

The point g (x, p) is (ρ_X(g) x, π_g p): values at (g, p) of a field are found at (g, π_g⁻¹ p) of the points. Outputs
that turn have no such points; their orbits are inputs like any others.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from equitangents.ensembles.infinite.field_source import FieldSource
from equitangents.groups import Group


class Training(Protocol):
    """What is asked of a training: answers at inputs, as fields, and on the orbits of its rows, as they are."""

    @property
    def augmentation(self) -> Any:
        """The action on rows."""

    def orbit_group(self) -> Group:
        """The augmentation's group."""

    def means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time."""

    def covariances(self, x: Any, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time."""

    def sample(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Draws of one network jointly over all inputs."""

    def row_orbit_means(self, x: Any, order: int, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each row."""

    def row_joint_orbits(self, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means on the orbits of rows, and the covariance between all of them."""

    def row_sample_orbits(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Draws of one network jointly over the orbits of rows."""


def means(training: Training, source: FieldSource, x: Any, times: np.ndarray) -> np.ndarray:
    """μ_t at all ρ_X(g) x: (T, M, |G|, *positions, outputs)."""
    if source.positions.turning:
        found = training.means(source.orbits(x), times)
        return found.reshape(len(times), len(x), -1, *found.shape[2:])
    found = training.row_orbit_means(source.points(x), training.orbit_group().order, times)
    return _by_element(training, source, found.reshape(len(times), len(x), source.positions.count, *found.shape[2:]))


def moments(training: Training, source: FieldSource, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (T, M, |G|, *positions, outputs) and covariances along orbits, over (|G|, *positions) twice."""
    parts = [joint_moments(training, source, x[m : m + 1], times) for m in range(len(x))]
    shape = parts[0][0].shape[2:-1]
    covariances = [c.reshape(len(times), 1, *shape, *shape) for _, c in parts]
    return np.concatenate([m for m, _ in parts], axis=1), np.concatenate(covariances, axis=1)


def joint_moments(training: Training, source: FieldSource, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means as of `moments`, and the covariance between all orbits: over (M, |G|, *positions) twice."""
    n, order, count = len(x), training.orbit_group().order, source.positions.count
    if source.positions.turning:
        orbits = n, order, count
        between = training.covariances(source.orbits(x), times)
        return means(training, source, x, times), between.reshape(len(times), *orbits, *orbits)
    found, covariances = training.row_joint_orbits(source.points(x), times)
    found = _by_element(training, source, found.reshape(len(times), n, count, order, -1))
    c = covariances.reshape(len(times), n, count, order, n, count, order)
    c = np.moveaxis(c, (3, 6), (2, 5)).copy()
    c = _moved(training, c, 2)
    c = _moved(training, c, 5)
    grid = n, order, *source.positions.shape
    return found, c.reshape(len(times), *grid, *grid)


def sample(training: Training, source: FieldSource, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
    """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, *positions, outputs)."""
    if source.positions.turning:
        found = training.sample(source.orbits(x), draws, time, key=key)
        return found.reshape(draws, len(x), -1, *found.shape[2:])
    found = training.row_sample_orbits(source.points(x), draws, time, key=key)
    return _by_element(training, source, found.reshape(draws, len(x), source.positions.count, *found.shape[2:]))


def _by_element(training: Training, source: FieldSource, values: np.ndarray) -> np.ndarray:
    """Values at g (x, p) = (ρ_X(g) x, π_g p), (·, M, P, |G|, outputs), as those at (ρ_X(g) x, p)."""
    values = _moved(training, values.swapaxes(2, 3).copy(), 2)
    return values.reshape(*values.shape[:3], *source.positions.shape, values.shape[-1])


def _moved(training: Training, values: np.ndarray, elements: int) -> np.ndarray:
    """Entry (g, p) from entry (g, π_g⁻¹ p), for the axis of elements and that of positions behind it."""
    table = training.augmentation.table
    back = np.argsort(table, axis=1)
    moved = np.moveaxis(values, (elements, elements + 1), (0, 1))
    moved = moved[np.arange(len(table))[:, None], back]
    return np.moveaxis(moved, (0, 1), (elements, elements + 1))
