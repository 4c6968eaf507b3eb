"""Settings and presets of the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from equitangents.statistics import FEWEST, Estimate, shared_level
from equitangents_studies.baselines import Problem
from equitangents_studies.common.images import Images
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework.records import Records
from equitangents_studies.framework.settings import presets


@dataclass(frozen=True)
class Settings:
    """`data` is "digits", a data set in the data folder, or a file `mine.npz` with x and y (and x_test, y_test).

    `pixels` averages images over areas to pixels × pixels. `baselines` are names, or "module:Name" of one's own.
    Every repetition has other initial weights, orders of data and, where there are more images than `train_images`,
    other training images. Networks see every training image `epochs` times; `kernel_images` train kernel machines.
    `shrink` are the factors by which channels are divided for ensembles of small networks (empty: none), each of which
    has as many members as one group-convolutional network costs, at most `most_members`.
    `zero`: the shade of an image that becomes 0, as what turns in at its corners: its mean, or its border's median.
    `tolerated`: the share of images, and of orientations, that a cheaper baseline may lose to the best and still be
    recommended.
    """

    data: str = "digits"
    foreign: tuple[str, ...] = ("photographs", "noise")
    group: Literal["C2", "C4", "C8", "C16", "D4"] = "C4"
    pixels: int | None = None
    baselines: tuple[str, ...] = (
        "plain", "augmented", "ensemble", "gcnn", "gcnn-ensemble", "canonicalisation", "test-time", "infinite",
        "invariant-kernel",
    )  # fmt: skip
    repetitions: int = 3
    train_images: int | None = 800
    test_images: int | None = 300
    foreign_images: int = 150
    channels: tuple[int, ...] = (8, 16)
    members: int = 16
    group_members: int = 3
    epochs: int = 20
    batch: int = 32
    learning_rate: float = 0.02
    kernel_images: int = 200
    shrink: tuple[int, ...] = (1, 2)
    most_members: int = 32
    zero: Literal["mean", "border"] = "mean"
    tolerated: float = 0.02
    seed: int = 0


# Turns that resample: corners turn in; kernel matrices of 4,800 rows are solved whole, as there are no irreps; and
# ensembles of group-convolutional networks would take 24 min (C8) and 48 min (C16) more.
PRESETS = presets(
    Settings(),
    desk="data=fashion_mnist foreign=mnist,cifar10,noise pixels=14 repetitions=5 train_images=10000 "
    "test_images=1000 foreign_images=400 channels=12,16 members=25 group_members=4 epochs=15 kernel_images=1200 "
    "shrink=1,2,4 most_members=64",
    paper="data=fashion_mnist foreign=mnist,cifar10,noise repetitions=5 train_images=none test_images=none "
    "foreign_images=5000 channels=32,64,64 members=100 group_members=10 epochs=30 batch=128 kernel_images=5000 "
    "shrink=1,2,4 most_members=256",
    desk_c8="desk group=C8 kernel_images=600 "
    "baselines=plain,augmented,ensemble,gcnn,gcnn-augmented,canonicalisation,canonicalisation-augmented,test-time,"
    "infinite,invariant-kernel shrink= zero=border",
    desk_c16="desk-c8 group=C16 kernel_images=300",
)


def covers(settings: Settings) -> str:
    """What intervals are over."""
    return covered(settings.repetitions, "repetitions")


def repeated(settings: Settings) -> int | None:
    """How many repetitions intervals are over, None where they are over inputs."""
    return settings.repetitions if settings.repetitions >= FEWEST else None


def small_channels(settings: Settings, shrink: int) -> tuple[int, ...]:
    """Channels of the small networks: the large ones' divided by `shrink`, at least one a layer."""
    return tuple(max(1, channels // shrink) for channels in settings.channels)


COSTS = ("parameters", "multiplications", "training_seconds", "inference_seconds")
MEASURES = ("upright", "rotated", "inside", "outside")


@dataclass(frozen=True, eq=False)
class Curve:
    """An ensemble of small networks: labels[set] (sizes, R, |G|, N) of the mean of `sizes` members."""

    sizes: np.ndarray
    labels: dict[str, np.ndarray]
    channels: tuple[int, ...]
    multiplications: float


@dataclass(frozen=True, eq=False)
class Results:
    """labels[baseline][set] (R, |G|, N) predicted classes; costs[baseline] by name (R,); floor[set] (R, |G|, N).

    `floor` is empty where the action is exact. `left_out` says why a baseline is missing.
    """

    images: Images
    problem: Problem
    titles: dict[str, str]
    labels: dict[str, dict[str, np.ndarray]]
    costs: dict[str, dict[str, np.ndarray]]
    floor: dict[str, np.ndarray]
    floor_of: str
    left_out: dict[str, str]
    curves: dict[int, Curve]
    gcnn_multiplications: float

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.problem.action.group.order)

    @property
    def foreign(self) -> list[str]:
        """Names of the sets out of distribution."""
        return [name for name in self.images.sets if name != "test"]

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions."""
        return same_predictions(self.problem.action, labels)

    def score(self, labels: dict[str, np.ndarray], measure: str) -> Float[np.ndarray, "... n"]:
        """The score of every repetition and input: right upright or over the orbit, agreement inside or outside."""
        if measure == "upright":
            return (labels["test"][..., self.problem.action.group.identity, :] == self.images.test_y).astype(float)
        if measure == "rotated":
            return (labels["test"] == self.images.test_y).mean(axis=-2)
        if measure == "inside":
            return self.agreement(labels["test"])
        return np.concatenate([self.agreement(labels[name]) for name in self.foreign], axis=-1)

    def bounds(self, measure: str) -> tuple[float, float]:
        """Between which values a score lies."""
        return (0.0, 1.0) if measure in ("upright", "rotated") else (1.0, float(self.order))

    def estimate(self, labels: dict[str, np.ndarray], measure: str, level: float = 0.95) -> Estimate:
        """The mean score and its interval."""
        return table_mean(self.score(labels, measure), self.bounds(measure), level)

    def difference(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], measure: str, level: float) -> Estimate:
        """The mean of a's score minus b's on the same inputs, in the same repetitions."""
        low, high = self.bounds(measure)
        return table_mean(self.score(a, measure) - self.score(b, measure), (low - high, high - low), level)

    def cost(self, name: str, which: str = "training_seconds") -> float:
        """What a baseline took in one repetition: the median, since the first also compiles."""
        return float(np.median(self.costs[name][which]))

    def least(self, labels: dict[str, np.ndarray]) -> float:
        """Orbit same predictions on the worst input of all sets and repetitions."""
        return float(min(self.agreement(y).min() for y in labels.values()))

    def on(self, labels: dict[str, np.ndarray], name: str) -> Estimate:
        """Orbit same predictions on one set."""
        return table_mean(self.agreement(labels[name]), self.bounds("outside"))

    def ahead(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions of a minus those of b on one set, paired."""
        most = self.order - 1.0
        return table_mean(self.agreement(a[name]) - self.agreement(b[name]), (-most, most), level)


def pairs(results: Results, measure: str) -> Records:
    """Differences between any two baselines, paired, with intervals that all hold together."""
    names = list(results.labels)
    both = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    level = shared_level(len(both))
    estimates = [results.difference(results.labels[a], results.labels[b], measure, level) for a, b in both]
    return Records(("baseline", "other"), tuple(both), tuple(estimates))
