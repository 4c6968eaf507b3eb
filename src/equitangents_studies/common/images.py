"""Images of the studies: a training set, its test set, and foreign sets brought to the same shape.

Every image, foreign or not, is shifted and scaled to mean 0 and standard deviation 1, which commutes with rotations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError
from equitangents_studies import data
from equitangents_studies.framework.study import check

_TITLES = {
    "digits": "digits",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "histology_crc5": "colorectal tiles",
    "histology_lc25000_colon": "LC25000 colon tiles",
    "nct_crc_he": "NCT-CRC-HE tiles",
    "photographs": "photographs",
    "noise": "noise",
}


@dataclass(frozen=True)
class Chosen:
    """The choice of images: base of the settings of image studies.

    `data` is "digits", a data set in the data folder, or your own file `….npz`; `foreign` lists other sets to test on:
    "photographs", "noise" or data sets. `train_images`, `test_images` (None: all) and `foreign_images` of each foreign
    set are chosen by `seed` and averaged down to `pixels` a side (None: not).
    """

    data: str = "digits"
    foreign: tuple[str, ...] = ("photographs", "noise")
    train_images: int | None = None
    test_images: int | None = None
    foreign_images: int = 300
    pixels: int | None = None
    seed: int = 0


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


def load_images(settings: Chosen, data_dir: Path | None, *, draw: int = 0) -> Images:
    """All images of the study, averaged over areas to `pixels` × `pixels`.

    Every `draw` selects other training images, if there are more than a study takes; test images stay. Raises
    DataNotFoundError where a file is missing, before anything is computed, InvalidArgumentError for foreign sets that
    are named twice and for sizes that images do not have.
    """
    distinct = len(settings.foreign) == len(set(settings.foreign))
    check(distinct, "foreign", settings.foreign, "a list without repetitions")
    source = _source(settings, data_dir)
    train = None if settings.train_images is None else min(settings.train_images, len(source.train_x))
    test = None if settings.test_images is None else min(settings.test_images, len(source.test_x))
    chosen = source.subset(train, test, seed=settings.seed)
    if draw:
        drawn = source.subset(train, None, seed=settings.seed + draw)
        chosen = replace(chosen, train_x=drawn.train_x, train_y=drawn.train_y)
    height, width, channels = chosen.shape
    side = height if settings.pixels is None else settings.pixels
    if height != width or side % 2:
        size = f"{settings.data!r} has {height}×{width}"
        raise InvalidArgumentError("pixels", settings.pixels, "an even side of square images", size, verb="was")
    if not 2 <= side <= height:
        raise InvalidArgumentError("pixels", side, range(2, height + 1), f"images of {settings.data!r}", verb="was")
    sized = lambda x: standardise(data.resize(x, (side, side)))
    sets = {"test": sized(chosen.test_x)}
    for name in settings.foreign:
        sets[name] = standardise(_foreign(name, settings, (side, side, channels), data_dir))
    titles = {name: _title(name, channels) for name in settings.foreign}
    titles = {"test": _title(settings.data, channels), **titles}
    return Images(sized(chosen.train_x), chosen.train_y, chosen.test_y, sets, titles, chosen.class_names)


def stands_for(name: str, data_dir: Path | None) -> str:
    """The data set for "auto": CIFAR-10 if the data folder has it, else textures."""
    if name != "auto":
        return name
    return "cifar10" if data.available("cifar10", data_dir) else "textures"


def is_own(name: str) -> bool:
    """Whether the name of a data set is a file name."""
    return name.endswith(".npz") or "/" in name


def _source(settings: Chosen, data_dir: Path | None) -> data.Dataset:
    if is_own(settings.data):
        return data.load_own(settings.data, seed=settings.seed)
    return data.load(settings.data, data_dir)


def standardise(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width channels"]:
    """Each image shifted and scaled to mean 0 and standard deviation 1; an image without contrast becomes 0."""
    centred = x - x.mean(axis=(1, 2, 3), keepdims=True)
    scale = centred.std(axis=(1, 2, 3), keepdims=True)
    return (centred / np.where(scale > 1e-6, scale, 1)).astype(np.float32)


def zero_at_border(images: Images) -> Images:
    """Every image shifted so that the median of its outermost pixels, channel by channel, is 0.

    Zero padding at the corners of a rotated image and beyond the edge then equals the image's own border.
    """
    sets = {name: _shifted(x) for name, x in images.sets.items()}
    return replace(images, train_x=_shifted(images.train_x), sets=sets)


def _shifted(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width channels"]:
    ring = np.concatenate([x[:, 0], x[:, -1], x[:, 1:-1, 0], x[:, 1:-1, -1]], axis=1)
    return x - np.median(ring, axis=1)[:, None, None]


def _foreign(name: str, settings: Chosen, shape: tuple[int, int, int], data_dir: Path | None) -> np.ndarray:
    count = settings.foreign_images
    if name == "noise":
        return data.gaussian_noise(count, shape, seed=settings.seed)
    if name == "photographs":
        return data.photo_patches(count, shape, seed=settings.seed)
    if name not in data.names():
        raise InvalidArgumentError("foreign", name, ["photographs", "noise", *data.names()])
    source = data.load(name, data_dir)
    few = source.subset(None, min(count, len(source.test_x)), seed=settings.seed)
    return data.conform(few.test_x, shape)


def _title(name: str, channels: int) -> str:
    if is_own(name):
        return Path(name).name
    grey = "grey " if channels == 1 and name == "cifar10" else ""
    return grey + _TITLES.get(name, name.replace("_", " "))
