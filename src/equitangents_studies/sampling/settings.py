"""Settings and presets of the sampling study.

Which group elements a training set shows: subsets of the pairs (i, g), with weights, and training on them.

A weight w_ig multiplies the loss of the sample (ρ(g)x_i, y_i): rows and columns of the kernel and targets times √w.
Weights 1/(|G| p(g)) of elements drawn from p make the loss an unbiased estimate of the complete one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents.inference import Flow, decompose
from equitangents.statistics import Estimate, bootstrap, log_ratio, t_interval
from equitangents_studies.common.image_ensembles import AnswersOnOrbits, Chosen, Recipe, check_images
from equitangents_studies.common.scores import table_mean
from equitangents_studies.framework.measured import Keyed, Measured, by
from equitangents_studies.framework.settings import at_least, check, presets


@dataclass(frozen=True)
class Settings:
    """C_n, n = `order`, on rings of 8×8 digits, exact for every n; `budgets` are divisors of n; `draws` of every
    random choice; `times` in units of N/(η λ_max). Sizes are our choice.

    Trained ensembles are CNNs of `channels` on images of `data`, the first layer of which reads patches of `patch` ×
    `patch` pixels. C_n, n = `image_order`, turns the images; `image_budget`, a divisor of n, is how many elements of
    every image partial augmentation shows. Complete augmentation takes `epochs`, the other ways as many steps. Every
    one of the `repetitions` (0: no training) has its own initial weights, random elements and, where there are more
    than `image_train`, training images. `foreign` are sets unlike them: "photographs", "noise" or data sets.
    """

    order: int = 16
    budgets: tuple[int, ...] = (1, 2, 4, 8)
    draws: int = 100
    times: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, float("inf"))
    train_images: int = 24
    test_images: int = 16
    rings: int = 4
    samples: int = 15
    hidden_layers: int = 2
    W_std: float = 2**0.5
    b_std: float = 0.1
    data: str = "digits"
    image_train: int | None = 200
    image_test: int | None = 400
    image_pixels: int | None = None
    foreign: tuple[str, ...] = ("photographs", "noise")
    foreign_images: int = 150
    image_order: int = 8
    image_budget: int = 4
    repetitions: int = 10
    members: int = 10
    patch: int = 2
    channels: tuple[int, ...] = (16, 16)
    epochs: int = 6
    batch: int = 32
    learning_rate: float = 0.02
    seed: int = 0

    @property
    def images(self) -> Chosen:
        """The images of the trained ensembles."""
        return Chosen(
            self.data, self.foreign, self.image_train, self.image_test, self.foreign_images, self.image_pixels,
            self.seed,
        )  # fmt: skip

    @property
    def recipe(self) -> Recipe:
        """How ensembles are trained: one at a time."""
        return Recipe(self.patch, self.channels, self.members, 1, self.batch, self.learning_rate)


PRESETS = presets(
    Settings(),
    desk="draws=200 train_images=40 test_images=32 data=fashion_mnist image_train=2000 image_test=500 "
    "foreign=mnist,cifar10,noise foreign_images=200 epochs=8",
    paper="order=32 budgets=1,2,4,8,16 draws=300 train_images=100 test_images=64 data=fashion_mnist "
    "image_train=20000 image_test=1000 foreign=mnist,cifar10,noise foreign_images=500 image_order=16 image_budget=8 "
    "members=50 channels=64,64,64 epochs=10 batch=128 learning_rate=0.01",
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Budgets that a subgroup can meet, draws enough for an interval; the images are there."""
    at_least(settings, draws=3)
    ok = all(0 < b < settings.order and settings.order % b == 0 for b in settings.budgets)
    check(ok and len(settings.budgets) >= 2, "budgets", settings.budgets, "at least two divisors of order below it")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    if settings.repetitions:
        at_least(settings, repetitions=1, members=2, epochs=1, batch=1, patch=1, foreign_images=1)
        ok = 0 < settings.image_budget < settings.image_order and settings.image_order % settings.image_budget == 0
        check(ok, "image_budget", settings.image_budget, "a divisor of image_order below it")
        check_images(settings.images, settings.recipe, data_dir)


SETS = ("test", "noise")


class Results(Measured):
    """`violation`, root mean square change over orbits relative to the prediction, and `distance` from the complete
    ensemble's mean, relative to it. `complete` is the violation of the complete one. `trained` are the trained
    ensembles, None where they were left out.
    """

    times: np.ndarray
    violation: Keyed[np.ndarray] = by("strategy", "budget draw time inputs")
    distance: Keyed[np.ndarray] = by("strategy", "budget draw time inputs")
    complete: np.ndarray = by("", "time inputs")
    trained: TrainedEnsembles | None = None


def compared(results: Results, a: str, b: str, budget: int, time: int, name: int, level: float = 0.95) -> Estimate:
    """Violation of one way over that of another: geometric means over draws (one value where nothing is drawn)."""
    first, second = (results.violation[s][budget, :, time, name] for s in (a, b))
    if len(first) == 1:
        return bootstrap(np.log(second), lambda m: first[0] / np.exp(m), confidence=level)
    return log_ratio(first, second, confidence=level)


PAIRS = (("complete", "anew"), ("spaced", "drawn"))  # systematic, random


def titles(order: int, budget: int) -> dict[str, str]:
    """What each way of choosing elements shows of every image."""
    return {
        "complete": f"all {order} elements",
        "anew": "a random element at every visit",
        "spaced": f"{budget} equally spaced elements",
        "drawn": f"{budget} random elements of each image’s own",
    }


@dataclass(frozen=True, eq=False)
class TrainedEnsembles(AnswersOnOrbits):
    """Ensembles by the way in which elements are chosen; their answers are those after the last epoch, (R, |G|, N).

    `steps[way]` are the training steps of every network.
    """

    budget: int
    steps: dict[str, int]

    @property
    def repetitions(self) -> int:
        """R."""
        return len(self.answers["complete"]["labels_test"])

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the ways of choosing elements."""
        return titles(self.order, self.budget)

    def accuracy(self, way: str) -> Float[np.ndarray, "repetitions n"]:
        """Share of the orbit of every test image on which the ensemble is right."""
        return (self.labels(way, "test") == self.images.test_y).mean(axis=1)

    def floor_accuracy(self, way: str) -> Float[np.ndarray, "repetitions n"]:
        """Accuracy where images are turned there and back, which only resampling changes."""
        return (self.answers[way]["floor_test"] == self.images.test_y).mean(axis=1)

    def more_accurate(self, a: str, b: str, level: float = 0.95) -> Estimate:
        """Accuracy of one way minus that of another, on the same images in the same repetitions."""
        return table_mean(self.accuracy(a) - self.accuracy(b), (-1.0, 1.0), level)

    def steadier(self, a: str, b: str, name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions of one way minus those of another, likewise."""
        most = self.order - 1.0
        return table_mean(self.agreement(a, name) - self.agreement(b, name), (-most, most), level)

    def steadier_overall(self, a: str, b: str) -> Estimate:
        """The mean of these differences over all sets, each with the same weight."""
        each = [(self.agreement(a, name) - self.agreement(b, name)).mean(axis=1) for name in self.sets]
        most = self.order - 1.0
        return t_interval(np.mean(each, axis=0), bounds=(-most, most))


STRATEGIES = {
    "subgroup": "a subgroup",
    "nearby": "neighbouring elements",
    "shared": "random elements that all inputs share",
    "own": "random elements of each input’s own",
    "uniform": "random elements drawn with replacement",
    "important": "importance-sampled elements, with replacement",
}
RANDOM = ("shared", "own", "uniform", "important")


@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows of the complete data, g·N + i, without repetitions, and their weights, of mean 1 on average."""

    rows: Int[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]


def importance(distances: Float[np.ndarray, "order n"]) -> Float[np.ndarray, "order n"]:
    """P(g | x_i): half uniform, half in proportion to |ρ(g)x_i − x_i|."""
    total = distances.sum(axis=0)
    share = np.divide(distances, total, where=total > 0, out=np.full(distances.shape, 1 / len(distances)))
    return 0.5 / len(distances) + 0.5 * share


def sample(
    strategy: str, budget: int, probabilities: Float[np.ndarray, "order n"], rng: np.random.Generator
) -> Sampled:
    """`budget` elements of a cyclic group for every one of N inputs; `probabilities` are those of "important"."""
    order, n = probabilities.shape
    if strategy in ("subgroup", "nearby"):
        chosen = np.arange(budget) * (order // budget if strategy == "subgroup" else 1)
        elements = np.tile(chosen[:, None], n)
    elif strategy == "shared":
        elements = np.tile(rng.permutation(order)[:budget, None], n)
    elif strategy == "own":
        elements = np.argsort(rng.random((order, n)), axis=0)[:budget]
    else:
        p = probabilities if strategy == "important" else np.full((order, n), 1 / order)
        uniform = rng.random((budget, 1, n))
        elements = np.minimum((uniform > np.cumsum(p, axis=0)[None]).sum(axis=1), order - 1)
    weights = 1 / (order * probabilities) if strategy == "important" else np.ones((order, n))
    rows = (elements * n + np.arange(n)).ravel()
    distinct, copies = np.unique(rows, return_counts=True)
    return Sampled(distinct, copies * weights.ravel()[distinct])


def trained_means(
    gram: Float[np.ndarray, "m m"],
    cross: Float[np.ndarray, "points m"],
    targets: Float[np.ndarray, "m outputs"],
    weights: Float[np.ndarray, " m"],
    samples: int,
    times: np.ndarray,
) -> Float[np.ndarray, "times points outputs"]:
    """μ_t of gradient flow at rate 1 on (1/2·samples) Σ w |f − y|², for a kernel known on the data and across."""
    root = np.sqrt(weights)
    spectrum = decompose(gram * np.outer(root, root))
    flow, pull = Flow(1.0, samples), spectrum.vectors.T @ (root[:, None] * targets)
    projected = (cross * root) @ spectrum.vectors
    return np.stack([projected @ (flow.response(spectrum.eigenvalues, t)[:, None] * pull) for t in times])
