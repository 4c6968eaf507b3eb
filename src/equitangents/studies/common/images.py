"""Images of the studies: a training set, its test set, and foreign sets brought to the same shape.

Every image, foreign or not, is shifted and scaled to mean 0 and standard deviation 1, which commutes with rotations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from equitangents import data
from equitangents.errors import InvalidArgumentError

_TITLES = {
    "digits": "digits",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "cifar10": "grey CIFAR-10",
    "photographs": "photographs",
    "noise": "noise",
}


class ImageChoice(Protocol):
    """Which images a study asks for: these fields of its settings."""

    @property
    def data(self) -> str:
        """The set `digits`, a data set in the data folder, or a file of one's own, `….npz`."""

    @property
    def foreign(self) -> tuple[str, ...]:
        """Other sets to test on: "photographs", "noise", or data sets."""

    @property
    def train_images(self) -> int | None:
        """How many to train on; None: all."""

    @property
    def test_images(self) -> int | None:
        """How many to test on; None: all."""

    @property
    def foreign_images(self) -> int:
        """How many of each foreign set."""

    @property
    def seed(self) -> int:
        """Which of them are chosen."""


@dataclass(frozen=True, eq=False)
class Images:
    """Standardised images: for training with labels, and `sets` to test on, "test" first; `titles` names them."""

    train_x: Float[np.ndarray, "n height width channels"]
    train_y: Int[np.ndarray, " n"]
    test_y: Int[np.ndarray, " m"]
    sets: dict[str, np.ndarray]
    titles: dict[str, str]
    class_names: tuple[str, ...]

    @property
    def classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    @property
    def probabilities(self) -> Float[np.ndarray, "n classes"]:
        """One-hot labels."""
        return np.eye(self.classes)[self.train_y]

    @property
    def targets(self) -> Float[np.ndarray, "n classes"]:
        """One-hot labels minus 1/K, for squared loss."""
        return self.probabilities - 1 / self.classes


def load_images(settings: ImageChoice, data_dir: Path | None, *, side: int | None = None, draw: int = 0) -> Images:
    """All images of the study, averaged over areas to `side` × `side` (None: left as they are).

    Every `draw` has training images of its own, where there are more of them than a study takes; the others stay.
    Raises DataNotFoundError where a file is missing, before anything is computed.
    """
    source = _source(settings, data_dir)
    train = None if settings.train_images is None else min(settings.train_images, len(source.train_x))
    test = None if settings.test_images is None else min(settings.test_images, len(source.test_x))
    chosen = source.subset(train, test, seed=settings.seed)
    if draw:
        drawn = source.subset(train, None, seed=settings.seed + draw)
        chosen = replace(chosen, train_x=drawn.train_x, train_y=drawn.train_y)
    if side is not None and chosen.shape[0] == chosen.shape[1]:
        small = (side, side)
        chosen = replace(chosen, train_x=data.resize(chosen.train_x, small), test_x=data.resize(chosen.test_x, small))
    height, width, _ = chosen.shape
    if height != width or height % 2:
        hint = "; side=… averages square ones to any size" if height == width and hasattr(settings, "side") else ""
        raise InvalidArgumentError(
            f"images of {settings.data!r} are {height}×{width}; the study needs square ones of even size{hint}"
        )
    sets = {"test": standardise(chosen.test_x)}
    for name in settings.foreign:
        sets[name] = standardise(_foreign(name, settings, chosen.shape, data_dir))
    titles = {"test": _title(settings.data), **{name: _title(name) for name in settings.foreign}}
    return Images(standardise(chosen.train_x), chosen.train_y, chosen.test_y, sets, titles, chosen.class_names)


def is_own(name: str) -> bool:
    """Whether the name of a data set is that of a file."""
    return name.endswith(".npz") or "/" in name


def _source(settings: ImageChoice, data_dir: Path | None) -> data.Dataset:
    if is_own(settings.data):
        return data.load_own(settings.data, seed=settings.seed)
    return data.load(settings.data, data_dir)


def standardise(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width channels"]:
    """Each image shifted and scaled to mean 0 and standard deviation 1; an image without contrast becomes 0."""
    centred = x - x.mean(axis=(1, 2, 3), keepdims=True)
    scale = centred.std(axis=(1, 2, 3), keepdims=True)
    return (centred / np.where(scale > 1e-6, scale, 1)).astype(np.float32)


def _foreign(name: str, settings: ImageChoice, shape: tuple[int, int, int], data_dir: Path | None) -> np.ndarray:
    count = settings.foreign_images
    if name == "noise":
        return data.gaussian_noise(count, shape, seed=settings.seed)
    if name == "photographs":
        return data.photo_patches(count, shape, seed=settings.seed)
    if name not in data.names():
        known = ", ".join(("photographs", "noise", *data.names()))
        raise InvalidArgumentError(f"foreign names {name!r}; known are {known}")
    source = data.load(name, data_dir)
    few = source.subset(None, min(count, len(source.test_x)), seed=settings.seed)
    return data.conform(few.test_x, shape)


def _title(name: str) -> str:
    return Path(name).name if is_own(name) else _TITLES.get(name, name.replace("_", " "))
