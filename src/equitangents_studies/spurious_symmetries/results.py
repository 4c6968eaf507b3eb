"""What is measured of spurious symmetries, and what follows from it at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, paired_mean
from equitangents_studies.common.counted_runs import COUNTED, counting
from equitangents_studies.spurious_symmetries.groups import by_data, by_model, own_group, spurious
from equitangents_studies.spurious_symmetries.pools import Pool
from equitangents_studies.spurious_symmetries.rank_test import RankTest, rank_test
from equitangents_studies.spurious_symmetries.settings import ARCHITECTURES, GROUPS, INFERENCES

Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Results:
    """By (architecture, inference): `best` and `last` accuracies on test images and `learnt` on training images,
    (groups, repetitions); kernels learn everything at once. `equal` (groups, repetitions) by architecture: how far its
    kernel changes when images are moved. `pools` by model, `small` by (model, group); `beside`: VEC on the images of
    GAP’s pool, where there is one. `pictures` (groups, images,
    height, width, channels): the first images as the networks see them.
    """

    source: str
    best: dict[Key, np.ndarray]
    last: dict[Key, np.ndarray]
    learnt: dict[Key, np.ndarray]
    equal: dict[str, np.ndarray]
    pools: dict[str, Pool]
    small: dict[Key, Pool]
    beside: Pool | None
    pictures: np.ndarray

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
        return paired_mean(values, level, (0, 100))

    def through_data(self) -> RankTest:
        """Do accuracies fall with the group that moves the data, over all architectures and inferences?"""
        return rank_test([(self.counted(a, how).T, by_data()) for a in ARCHITECTURES for how in INFERENCES])

    def through_model(self) -> RankTest:
        """Do accuracies on images as they are fall with the algorithm's own group, over all inferences?"""
        first = lambda how: np.stack([self.counted(a, how)[0] for a in ARCHITECTURES], axis=1)
        return rank_test([(first(how), by_model(how)) for how in INFERENCES])

    def wide_through_data(self) -> dict[str, RankTest]:
        """Rank tests through data at infinite width, on all test images, for models whose group is not the largest."""
        found = {}
        for name, pool in self.pools.items():
            if len(pool.groups) > 1 and own_group(name, "NTK") != "O(3d)":
                found[f"{name}, {pool.most:,} images"] = rank_test([(pool.moved.T.astype(float), by_data(pool.groups))])
        moved = {group: pool for (name, group), pool in self.small.items() if name == "GAP"}
        right = np.stack([pool.tested for pool in moved.values()], axis=1).astype(float)
        found[f"GAP, {moved['I'].most:,} images"] = rank_test([(right, by_data(tuple(moved)))])
        return found

    def wide_through_model(self) -> dict[str, RankTest]:
        """Rank tests through models at infinite width, on every test image."""
        sets = [{name: pool for (name, group), pool in self.small.items() if group == "I"}]
        if {"FCN", "VEC"} <= set(self.pools) and self.pools["FCN"].most == self.pools["VEC"].most:
            sets.append({name: self.pools[name] for name in ("FCN", "VEC")})
        found = {}
        for pools in sets:
            names = tuple(pools)
            right = np.stack([pool.tested for pool in pools.values()], axis=1).astype(float)
            label = f"{', '.join(names)}, {pools['VEC'].most:,} images"
            found[label] = rank_test([(right, by_model("NTK", names))])
        return found

    def kernel_ahead(self, inference: str, under: bool, level: float = 0.95) -> Estimate:
        """Accuracy of the NTK minus that of networks, mean over all architectures and groups that are spurious
        together (`under`), or those that are not; runs that count, paired by repetition.
        """
        cells = [(a, i) for a in ARCHITECTURES for i, g in enumerate(GROUPS) if spurious(a, g) == under]
        ahead = np.array([self.counted(a, "NTK")[i] - self.counted(a, inference)[i] for a, i in cells])
        return _over_repetitions(lambda: np.nanmean(ahead, axis=0), level)


def _over_repetitions(compute: Callable[[], np.ndarray], level: float) -> Estimate:
    """The mean of those repetitions that have a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a repetition in which no run counts
        values = compute()
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Estimate(np.nan, np.nan, np.nan, level)
    return paired_mean(values, level, (-100, 100))
