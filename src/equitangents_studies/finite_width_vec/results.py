"""Settings of the study of VEC against width, what is measured, and what follows from it at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equitangents.statistics import Estimate, no_interval, paired_mean
from equitangents_studies.common.system_runs import counting

GROUPS = ("I", "O(3)^d")
INFERENCES = ("NN", "NN+")
Key = tuple[str, str]


@dataclass(frozen=True)
class Settings:
    """`data` as in `symmetry-groups`. VEC of `depth` hidden layers and each of `widths`, which double, `runs` each,
    on `train_images` and `test_images` of its own, averaged down to `pixels`, for at most `epochs`; a width is read off
    where at least `needed` runs count. `ridge`: of the NTK, relative to the mean diagonal.
    """

    data: str = "auto"
    train_images: int = 80
    test_images: int = 200
    pixels: int = 8
    depth: int = 2
    widths: tuple[int, ...] = (16, 32, 64)
    runs: int = 4
    needed: int = 3
    epochs: int = 300
    ridge: float = 1e-4
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Results:
    """By (inference, group): `best`, `last` and `learnt` (widths, runs), accuracies of runs on test images, the highest
    along training and the last, and on training images. By group `limit` (runs,): of the NTK, and `draws` (runs,
    draws): of single infinitely wide networks. `pictures` (groups, images, height, width, channels): the first images
    as the networks see them.
    """

    source: str
    widths: tuple[int, ...]
    needed: int
    best: dict[Key, np.ndarray]
    last: dict[Key, np.ndarray]
    learnt: dict[Key, np.ndarray]
    limit: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]
    pictures: np.ndarray

    def counted(self, inference: str, group: str, width: int) -> np.ndarray:
        """Accuracies of runs in percent, NaN for those that do not count."""
        i, key = self.widths.index(width), (inference, group)
        return counting(self.best[key][i], self.learnt[key][i])

    def successful(self, inference: str, group: str, width: int) -> int:
        """How many runs count."""
        return int(np.isfinite(self.counted(inference, group, width)).sum())

    def accuracy(self, inference: str, group: str, width: int, level: float = 0.95) -> Estimate:
        """The mean over runs that count, in percent; NaN where they are too few."""
        return self._mean(self.counted(inference, group, width), level, (0, 100))

    def wide(self, group: str, level: float = 0.95) -> Estimate:
        """Accuracy of the NTK in percent."""
        return paired_mean(100 * self.limit[group], level, (0, 100))

    def cost(self, inference: str, width: int, level: float = 0.95) -> Estimate:
        """Accuracy on images as they are minus that on rotated ones, run by run, in percentage points."""
        return self._mean(self._cost(inference, width), level)

    def mean_cost(self) -> Estimate:
        """The mean cost over all inferences and widths at which enough runs count."""
        every = [(how, w) for how in INFERENCES for w in self.widths if self.cost(how, w).has_interval]
        return self._over_cells([self._cost(how, w) for how, w in every])

    def ahead(
        self, inference: str, group: str, width: int, of: Literal["mean", "draws"] = "mean", level: float = 0.95
    ) -> Estimate:
        """Accuracy of networks minus that of the NTK, or of single draws of the infinitely wide network's law."""
        return self._mean(self._ahead(inference, group, width, of), level)

    def mean_of(self, cells: Sequence[tuple[str, int]], group: str, of: Literal["mean", "draws"]) -> Estimate:
        """The mean of `ahead` over (inference, width), where enough runs count."""
        known = [cell for cell in cells if self.ahead(cell[0], group, cell[1], of).has_interval]
        return self._over_cells([self._ahead(how, group, w, of) for how, w in known])

    def single(self, group: str) -> Estimate:
        """Accuracy of single draws in percent, with its interval over runs."""
        return paired_mean(100 * self.draws[group].mean(axis=1), bounds=(0, 100))

    def falls(self, inference: str, width: int, level: float = 0.95) -> Estimate:
        """Accuracy at this width minus that at the largest, images as they are."""
        last = self.counted(inference, "I", self.widths[-1])
        return self._mean(self.counted(inference, "I", width) - last, level)

    def _ahead(self, inference: str, group: str, width: int, of: str) -> np.ndarray:
        """The source takes networks at their best; draws, which are trained to the end, are compared with the end."""
        if of == "mean":
            return self.counted(inference, group, width) - 100 * self.limit[group]
        i, key = self.widths.index(width), (inference, group)
        return counting(self.last[key][i], self.learnt[key][i]) - 100 * self.draws[group].mean(axis=1)

    def _over_cells(self, cells: Sequence[np.ndarray]) -> Estimate:
        """The mean over cells (runs,), run by run: of those that count in each."""
        if not cells:
            return no_interval(math.nan)
        table = np.array(cells)
        some = np.isfinite(table).any(axis=0)
        return self._mean(np.nanmean(table[:, some], axis=0), 0.95)

    def _cost(self, inference: str, width: int) -> np.ndarray:
        return self.counted(inference, "I", width) - self.counted(inference, "O(3)^d", width)

    def _mean(self, values: np.ndarray, level: float, bounds: tuple[float, float] = (-100, 100)) -> Estimate:
        values = values[np.isfinite(values)]
        if len(values) < self.needed:
            return no_interval(math.nan, level)
        return paired_mean(values, level, bounds)
