"""What is measured of spurious symmetries, and what follows from it at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equitangents.statistics import Estimate, t_interval
from equitangents_studies.common.system_runs import COUNTED, counting
from equitangents_studies.spurious_symmetries.groups import by_data, by_model, spurious
from equitangents_studies.spurious_symmetries.pools import Pool, lead
from equitangents_studies.spurious_symmetries.rank_test import Pairs, RankTest, rank_test
from equitangents_studies.spurious_symmetries.settings import ARCHITECTURES, GROUPS, INFERENCES

Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Results:
    """By (architecture, inference): `best` and `last` accuracies on test images and `learnt` on training images,
    (groups, repetitions); kernels learn everything at once. `equal` (groups, repetitions) by architecture: how far its
    kernel changes when images are moved. `pools` by model, `small` by (model, group); `beside`: VEC on the images of
    GAP’s pool, where there is one. `draws` (groups, repetitions, draws) by architecture: accuracies of single
    infinitely wide networks. `pictures` (groups, images, height, width, channels): the first images as the networks see
    them.
    """

    source: str
    best: dict[Key, np.ndarray]
    last: dict[Key, np.ndarray]
    learnt: dict[Key, np.ndarray]
    equal: dict[str, np.ndarray]
    pools: dict[str, Pool]
    small: dict[Key, Pool]
    beside: Pool | None
    draws: dict[str, np.ndarray]
    pictures: np.ndarray

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those that were trained: of few pixels some are one another."""
        return tuple(name for name in ARCHITECTURES if name in self.draws)

    def counted(self, architecture: str, inference: str) -> np.ndarray:
        """Best accuracies in percent, (groups, repetitions); NaN for runs that do not count."""
        key = architecture, inference
        return counting(self.best[key], self.learnt[key])

    @property
    def share_counted(self) -> float:
        """The share of all trained networks that is counted."""
        networks = [self.learnt[key] >= COUNTED for key in self.learnt if key[1] != "NTK"]
        return float(np.mean(networks))

    def accuracy(self, architecture: str, inference: str, group: str, level: float = 0.95) -> Estimate:
        """The mean over repetitions that count, in percent."""
        values = self.counted(architecture, inference)[GROUPS.index(group)]
        values = values[np.isfinite(values)]
        if len(values) == 0:
            return Estimate(np.nan, np.nan, np.nan, level)
        return t_interval(values, level, (0, 100))

    def through_data(self) -> RankTest:
        """Do accuracies fall with the group that moves the data, over all architectures and inferences?"""
        return rank_test([(self.counted(a, how).T, by_data()) for a in self.architectures for how in INFERENCES])

    def through_model(self) -> RankTest:
        """Do accuracies on images as they are fall with the algorithm's own group, over all inferences?"""
        return rank_test([(self._first(how), by_model(how, self.architectures)) for how in INFERENCES])

    def falls_through_data(self) -> Estimate:
        """Accuracy minus that under a larger group, mean over systems and comparable pairs, by repetition."""
        return self._falls([(self.counted(a, how).T, by_data()) for a in self.architectures for how in INFERENCES])

    def falls_through_model(self) -> Estimate:
        """The same on images as they are, of pairs of algorithms with comparable groups of their own."""
        return self._falls([(self._first(how), by_model(how, self.architectures)) for how in INFERENCES])

    def _first(self, inference: str) -> np.ndarray:
        return np.stack([self.counted(a, inference)[0] for a in self.architectures], axis=1)

    def _falls(self, systems: Sequence[tuple[np.ndarray, Pairs]]) -> Estimate:
        falls = np.concatenate([values[:, i] - values[:, j] for values, pairs in systems for i, j in pairs])
        return _over_repetitions(lambda: np.nanmean(falls.reshape(-1, len(systems[0][0])), axis=0), 0.95)

    def pool_falls(self) -> dict[str, Estimate]:
        """Accuracy of infinitely wide GAP minus that on images moved by each group, same folds, in points."""
        return {g: lead(self.small["GAP", "I"], pool) for g, pool in self._moved_gap().items()}

    def mean_pool_fall(self) -> Estimate:
        """Their mean over groups, by fold."""
        moved = np.mean([pool.accuracies for pool in self._moved_gap().values()], axis=0)
        return t_interval(self.small["GAP", "I"].accuracies - moved, bounds=(-100, 100))

    def _moved_gap(self) -> dict[str, Pool]:
        return {g: pool for (name, g), pool in self.small.items() if name == "GAP" and g != "I"}

    def kernel_ahead(
        self, inferences: Sequence[str], under: bool, of: Literal["mean", "draws"] = "mean", level: float = 0.95
    ) -> Estimate:
        """Accuracy of the NTK, or of single infinitely wide networks, minus that of trained ones, mean over inferences.

        Mean over all architectures and groups that are spurious together (`under`), or those that are not; runs that
        count, paired by repetition. The source takes networks at their best; draws, which are trained to the end, are
        compared with networks at the end.
        """
        cells = [(a, i) for a in self.architectures for i, g in enumerate(GROUPS) if spurious(a, g) == under]
        ahead = np.array([self._wide(a, of)[i] - self._trained(a, how, of)[i] for how in inferences for a, i in cells])
        return _over_repetitions(lambda: np.nanmean(ahead, axis=0), level)

    def wide_accuracy(self, under: bool, of: Literal["mean", "draws"]) -> float:
        """The mean accuracy of infinite width over the cells of `kernel_ahead`."""
        cells = [(a, i) for a in self.architectures for i, g in enumerate(GROUPS) if spurious(a, g) == under]
        return float(np.mean([self._wide(a, of)[i] for a, i in cells]))

    def _wide(self, architecture: str, of: str) -> np.ndarray:
        return self.counted(architecture, "NTK") if of == "mean" else 100 * self.draws[architecture].mean(axis=2)

    def _trained(self, architecture: str, inference: str, of: str) -> np.ndarray:
        key = architecture, inference
        return counting((self.best if of == "mean" else self.last)[key], self.learnt[key])


def _over_repetitions(compute: Callable[[], np.ndarray], level: float) -> Estimate:
    """The mean of those repetitions that have a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a repetition in which no run counts
        values = compute()
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Estimate(np.nan, np.nan, np.nan, level)
    return t_interval(values, level, (-100, 100))
