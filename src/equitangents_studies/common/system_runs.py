"""Runs of the studies of learning systems: images, trained networks, draws of infinitely wide ones.

A run is one network trained on moved images, with the highest test accuracy along training, as arXiv 2207.04612 has it.
It counts if its training accuracy reaches 95 %. The transformation, the initial weights and the images are those of the
repetition. Images are of a data set, or generated textures, brought to one size.

Single infinitely wide networks are draws of GP(μ, Σ), the law of one trained network in the limit. The NTK's prediction
μ is the mean of infinitely many: a single network, of finite width or drawn, also has what its initial outputs leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Int

from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import FiniteNetwork, Workers
from equitangents.kernels import KernelFunction
from equitangents.solvers import solve
from equitangents_studies import data
from equitangents_studies.common.images import standardise, stands_for
from equitangents_studies.data import Dataset
from equitangents_studies.framework.study import Arrays, Task, check
from equitangents_studies.systems import System, textures, transformation
from equitangents_studies.systems.descent import GradientInference

_CLASSES, _TINT = 10, 0.5  # of generated textures


@dataclass(frozen=True)
class SystemSettings:
    """The choice of images: base of the settings of studies of learning systems.

    `data`: "cifar10" or another data set of the data folder, "digits", "textures" (generated), or "auto": CIFAR-10
    where the folder has it, else textures. `train_images` and `test_images`, averaged down to `pixels` a side, are
    chosen by `seed`.
    """

    data: str = "auto"
    train_images: int = 300
    test_images: int = 300
    pixels: int = 8
    seed: int = 0


def asked_images(s: SystemSettings, data_dir: Path | None) -> Dataset:
    """Images chosen by the settings; a missing file raises before anything is computed."""
    return load_system_images(s.data, data_dir, train=s.train_images, test=s.test_images, pixels=s.pixels, seed=s.seed)


def load_system_images(
    name: str,
    data_dir: Path | None,
    *,
    train: int,
    test: int,
    pixels: int,
    seed: int,
    prepare: Callable[[np.ndarray], np.ndarray] = standardise,
) -> Dataset:
    """`train` and `test` images of the data set `name`, averaged down to `pixels` × `pixels` and prepared.

    "textures" are generated; "auto" is CIFAR-10 where the data folder has it, and textures else. Raises
    InvalidArgumentError for an unknown name, DataNotFoundError where a file is missing.
    """
    known = ("auto", "textures", *data.names())
    check(name in known, "data", name, list(known))
    name = stands_for(name, data_dir)
    if name == "textures":
        drawn = textures(train + test, (pixels, pixels, 3), _CLASSES, tint=_TINT, seed=seed)
        x, y = prepare(drawn.x), drawn.labels
        return Dataset(name, x[:train], y[:train], x[train:], y[train:], tuple(map(str, range(_CLASSES))))
    source = data.load(name, data_dir)
    few = source.subset(min(train, len(source.train_x)), min(test, len(source.test_x)), seed=seed)
    train_x, test_x = (prepare(data.resize(x, (pixels, pixels))) for x in (few.train_x, few.test_x))
    return replace(few, train_x=train_x, test_x=test_x)


def repeated_images(s: SystemSettings, data_dir: Path | None, repetitions: int) -> list[Dataset]:
    """As `asked_images` for each of `repetitions`, with different images as far as there are enough."""
    train, test = s.train_images, s.test_images
    whole = load_system_images(
        s.data, data_dir, train=repetitions * train, test=repetitions * test, pixels=s.pixels, seed=s.seed
    )
    for what, wanted, there in (("train_images", train, len(whole.train_x)), ("test_images", test, len(whole.test_x))):
        check(wanted <= there, what, wanted, f"at most {there}, which {whole.name} has")
    rows = lambda r, count, x: np.arange(r * count, (r + 1) * count) % len(x)
    taken = [(rows(r, train, whole.train_x), rows(r, test, whole.test_x)) for r in range(repetitions)]
    return [
        Dataset(whole.name, whole.train_x[a], whole.train_y[a], whole.test_x[b], whole.test_y[b], whole.class_names)
        for a, b in taken
    ]


def doubling_in_two_steps(smallest: int, most: int) -> Int[np.ndarray, " sizes"]:
    """Training sizes from the smallest on by factors of about √2; only the smallest if `most` is below it.

    >>> doubling_in_two_steps(10, 40).tolist()
    [10, 14, 20, 28, 40]
    """
    steps = int(2 * np.log2(most / smallest)) + 1 if most >= smallest else 1
    return np.unique(np.round(np.geomspace(smallest, max(most, smallest), steps)).astype(int))


COUNTED = 0.95
"""Training accuracy from which a run counts."""

KEYS = ("best", "last", "learnt", "epochs")


def counted_runs(
    group: str,
    net: FiniteNetwork,
    learning: GradientInference,
    seed: int,
    images: Sequence[Dataset],
    *,
    first_alone: bool,
) -> np.ndarray:
    """(repetitions, 4), in the order of KEYS: best and last test accuracy, training accuracy, epochs.

    Repetition r has the seed + r. `first_alone`: other repetitions wait for the first, which compiles.
    """
    with Workers() as workers:
        of = partial(_one, group, net, learning, seed, images)
        return np.array(workers.map(of, range(len(images)), first_alone=first_alone))


def by_key(rows: Sequence[np.ndarray]) -> Arrays:
    """Stack several outputs of `counted_runs` into arrays (…, repetitions) by key."""
    stacked = np.stack(rows)
    return {key: stacked[..., k] for k, key in enumerate(KEYS)}


def counting(best: np.ndarray, learnt: np.ndarray) -> np.ndarray:
    """Accuracies in percent, NaN for runs that do not count."""
    return np.where(learnt >= COUNTED, 100 * best, np.nan)


def _one(
    group: str, net: FiniteNetwork, learning: GradientInference, seed: int, images: Sequence[Dataset], r: int
) -> list[float]:
    one = images[r]
    fitted = System(group, net, learning, seed + r).fit(one.train_x, one.train_y, watch=(one.test_x, one.test_y))
    trained = fitted.trained
    along = trained.watched[:, 0]
    return [float(along.max()), float(along[-1]), float(trained.accuracies[0]), float(trained.epochs[0])]


DRAWS = 50
"""Networks drawn on each set of images."""


def draw_accuracies(
    net: KernelFunction,
    images: Sequence[Dataset],
    groups: Sequence[str],
    ridge: float,
    seed: int,
    task: Task,
    draws: int = DRAWS,
) -> Arrays:
    """`draws` (groups, repetitions, draws) and `mean` (groups, repetitions): test accuracies of single draws, and of μ.

    Repetition r moves its images by the elements that the seed + r draws, as networks do.
    """
    single = np.zeros((len(groups), len(images), draws))
    mean = np.zeros(single.shape[:2])
    for i, group in enumerate(groups):
        for r, one in enumerate(images):
            tau = transformation(group, one.train_x.shape[1:], seed=seed + r)
            x, test = (np.asarray(tau(part), np.float32) for part in (one.train_x, one.test_x))
            right = lambda outputs, y=one.test_y: (np.asarray(outputs).argmax(axis=-1) == y).mean(axis=-1)
            ensemble = InfiniteEnsemble(net, ridge=ridge).fit(x, one.targets)
            mean[i, r] = right(ensemble.predict(test))
            single[i, r] = right(ensemble.sample(test, draws, key=jax.random.key(seed + r)))
            task.step(i * len(images) + r + 1, len(groups) * len(images))
    return {"draws": single, "mean": mean}


def predicted(K: np.ndarray, across: np.ndarray, targets: np.ndarray, ridge: float) -> np.ndarray:
    """Kernel regression in float64: Θ(x, X)(Θ + δ)⁻¹Y, δ = ridge · (mean diagonal)."""
    weights = solve(np.asarray(K, np.float64), targets, ridge=ridge, solver="cholesky").coefficients
    return across.astype(np.float64) @ weights
