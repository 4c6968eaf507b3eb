"""Images of the studies of learning systems: of a data set, or generated textures, brought to one size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from equitangents_studies import data
from equitangents_studies.common.images import standardise
from equitangents_studies.framework.study import check
from equitangents_studies.systems import textures

_CLASSES, _TINT = 10, 0.5  # of generated textures


@dataclass(frozen=True, eq=False)
class SystemImages:
    """Standardised images and the numbers of their classes; `name` is the data set, or "textures"."""

    name: str
    train_x: Float[np.ndarray, "n height width channels"]
    train_y: Int[np.ndarray, " n"]
    test_x: Float[np.ndarray, "m height width channels"]
    test_y: Int[np.ndarray, " m"]

    @property
    def classes(self) -> int:
        """Number of classes K."""
        return int(max(self.train_y.max(), self.test_y.max())) + 1

    @property
    def targets(self) -> Float[np.ndarray, "n classes"]:
        """One-hot labels of the training images minus 1/K."""
        return np.eye(self.classes)[self.train_y] - 1 / self.classes


class Asked(Protocol):
    """Which images: these fields of a study's settings."""

    @property
    def data(self) -> str:
        """A data set, "textures" or "auto"."""

    @property
    def train_images(self) -> int:
        """How many to train on."""

    @property
    def test_images(self) -> int:
        """How many to test on."""

    @property
    def pixels(self) -> int:
        """How many each side is averaged down to."""

    @property
    def seed(self) -> int:
        """Which of them are chosen."""


def asked_images(s: Asked, data_dir: Path | None) -> SystemImages:
    """The images that settings ask for; raises where a file is missing, before anything is computed."""
    return load_system_images(s.data, data_dir, train=s.train_images, test=s.test_images, pixels=s.pixels, seed=s.seed)


def load_system_images(
    name: str, data_dir: Path | None, *, train: int, test: int, pixels: int, seed: int
) -> SystemImages:
    """`train` and `test` images of the data set `name`, averaged down to `pixels` × `pixels`.

    "textures" are generated; "auto" is CIFAR-10 where the data folder has it, and textures else. Raises
    InvalidArgumentError for an unknown name, DataNotFoundError where a file is missing.
    """
    known = ("auto", "textures", *data.names())
    check(name in known, "data", repr(name), f"one of {', '.join(known)}")
    if name == "auto":
        name = "cifar10" if data.available("cifar10", data_dir) else "textures"
    if name == "textures":
        drawn = textures(train + test, (pixels, pixels, 3), _CLASSES, tint=_TINT, seed=seed)
        x, y = standardise(drawn.x), drawn.labels
        return SystemImages(name, x[:train], y[:train], x[train:], y[train:])
    source = data.load(name, data_dir)
    few = source.subset(min(train, len(source.train_x)), min(test, len(source.test_x)), seed=seed)
    sized = lambda x: standardise(data.resize(x, (pixels, pixels)))
    return SystemImages(name, sized(few.train_x), few.train_y, sized(few.test_x), few.test_y)


def repeated_images(s: Asked, data_dir: Path | None, repetitions: int) -> list[SystemImages]:
    """As `asked_images`, for each of `repetitions` others, as far as the data have enough."""
    train, test = s.train_images, s.test_images
    whole = load_system_images(
        s.data, data_dir, train=repetitions * train, test=repetitions * test, pixels=s.pixels, seed=s.seed
    )
    for what, asked, there in (("train_images", train, len(whole.train_x)), ("test_images", test, len(whole.test_x))):
        check(asked <= there, what, asked, f"at most {there}, which {whole.name} has")
    found = []
    for r in range(repetitions):
        rows = np.arange(r * train, (r + 1) * train) % len(whole.train_x)
        tested = np.arange(r * test, (r + 1) * test) % len(whole.test_x)
        found.append(
            SystemImages(whole.name, whole.train_x[rows], whole.train_y[rows], whole.test_x[tested],
                         whole.test_y[tested])
        )  # fmt: skip
    return found
