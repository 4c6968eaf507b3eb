"""What is measured on an image folder, and what follows from it at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equitangents.statistics import Estimate
from equitangents_studies.common.scores import table_mean
from equitangents_studies.systems import PowerLaw, fit_power_law

PERMUTED = "P(3d)"
_GROUPED = 300  # images from which on they are resampled in as many groups
Key = tuple[str, str]
"""(network, group that moved the images)"""


@dataclass(frozen=True, eq=False)
class Results:
    """`right[network, group]` (sizes, runs, test images), which test images are classified rightly, and
    `permuted[network]` (runs, test images) with all coordinates permuted and the largest training set; `sizes` of
    training sets, `classes`, how many; `source` names the images, `shown` are a few of them, uint8.
    """

    source: str
    classes: int
    sizes: tuple[int, ...]
    right: dict[Key, np.ndarray]
    permuted: dict[str, np.ndarray]
    shown: np.ndarray

    @property
    def test_images(self) -> int:
        """How many images are classified."""
        return int(next(iter(self.right.values())).shape[2])

    def errors(self, key: Key) -> np.ndarray:
        """Shares of wrong classes (sizes, runs); where none is wrong, half an image is taken to be."""
        return np.maximum(1 - self.right[key].mean(axis=2), 0.5 / self.test_images)

    @cached_property
    def laws(self) -> dict[Key, PowerLaw]:
        """Two power laws, joined at a cusp, of every network and group."""
        return {key: fit_power_law(self.sizes, _of(self.errors(key)), 2) for key in self.right}

    @cached_property
    def halves(self) -> dict[Key, tuple[Estimate, Estimate]]:
        """Exponents of the smaller and of the larger half of the training sets, as the source has them."""
        half = len(self.sizes) // 2
        parts = (slice(0, half), slice(-half, None))
        if half < 3:
            return {}
        fitted = lambda key, part: fit_power_law(self.sizes[part], _of(self.errors(key)[part]), 1).exponent
        return {key: (fitted(key, parts[0]), fitted(key, parts[1])) for key in self.right}

    def lost(self, network: str, group: str, level: float = 0.95) -> Estimate:
        """Accuracy on images as they are minus that on moved ones, largest training set, percentage points."""
        clean, moved = self.right[network, "I"][-1], self.right[network, group][-1]
        return mean_over_images(100.0 * clean - 100.0 * moved, (-100, 100), level)

    def accuracy_permuted(self, network: str, level: float = 0.95) -> Estimate:
        """Accuracy, per cent, with all coordinates permuted."""
        return mean_over_images(100.0 * self.permuted[network], (0, 100), level)


def mean_over_images(table: np.ndarray, bounds: tuple[float, float], level: float = 0.95) -> Estimate:
    """The mean of a table (runs, images); of many images, the interval is that of means of random groups of them."""
    count = table.shape[1]
    if count <= _GROUPED:
        return table_mean(table, bounds, level)
    order = np.random.default_rng(0).permutation(count)
    groups = np.stack([table[:, rows].mean(axis=1) for rows in np.array_split(order, _GROUPED)], axis=1)
    found = table_mean(groups, bounds, level)
    return Estimate(float(table.mean()), found.low, found.high, level)


def _of(errors: np.ndarray) -> np.ndarray:
    """One repetition as a vector, whose scatter about a fit tells its errors."""
    return errors[:, 0] if errors.shape[1] == 1 else errors
