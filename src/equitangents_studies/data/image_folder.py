"""Images of a folder read when they are needed: what is held is the list of files, never all the images.

Two layouts: CLASS/*.jpg, of which a share is set apart to test on; or train/CLASS/*.jpg and val/CLASS/*.jpg (or test/).
"""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, UInt8

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_whole
from equitangents_studies.data.class_folders import class_files
from equitangents_studies.data.image_file import read_image

_TEST_FOLDERS = ("val", "test")
_LEAST_AREA, _MOST_RATIO = 0.08, 4 / 3  # of crops, as ImageNet is usually trained on


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImageFiles:
    """Names of image files below `folder` and the number of each one's class, `labels` (N,)."""

    folder: Path
    names: tuple[str, ...]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<{len(self):,} image files in {self.folder}>"

    def __getitem__(self, rows: np.ndarray) -> ImageFiles:
        """The files in these rows, in that order; nothing is read."""
        return ImageFiles(self.folder, tuple(self.names[i] for i in rows), self.labels[rows])

    def read(
        self,
        rows: Int[np.ndarray, " n"],
        pixels: int,
        *,
        crops: Float[np.ndarray, "n 5"] | None = None,
        workers: Executor | None = None,
    ) -> UInt8[np.ndarray, "n pixels pixels 3"]:
        """The images in these rows as RGB: the largest centred square, resampled to `pixels` × `pixels`.

        A square of that size is left as it is; smaller ones are enlarged. `crops`, numbers between 0 and 1, take a part
        of 8 to 100 % of the area, with sides at most 4 to 3, anywhere in the image, instead, and mirror it or do not:
        area, ratio of the sides, place from the left, from the top, mirrored below a half. `workers` (threads) read
        several images at once.

        Raises InvalidArgumentError that names a file that is no image.
        """
        check_whole("pixels", pixels, 1)
        places = [self.folder / self.names[i] for i in rows]
        parts = [None] * len(places) if crops is None else list(crops)
        found = list((workers.map if workers else map)(partial(_read, pixels), places, parts))
        return np.stack(found) if found else np.zeros((0, pixels, pixels, 3), np.uint8)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder:
    """The files of an image folder: `train` and `test`, and the classes' names."""

    path: Path
    train: ImageFiles
    test: ImageFiles
    class_names: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A text that changes with the names of files and classes, and with how they are split."""
        told = hashlib.sha256(repr(self.class_names).encode())
        for part in (self.train, self.test):
            told.update("\n".join(part.names).encode())
            told.update(np.asarray(part.labels, np.int64).tobytes())
        return told.hexdigest()

    def __repr__(self) -> str:
        return (
            f"<image folder {self.path}: {len(self.train):,} training and {len(self.test):,} test images of "
            f"{len(self.class_names):,} classes>"
        )


def open_image_folder(path: str | Path, *, test_fraction: float = 0.1, seed: int = 0) -> ImageFolder:
    """List the images in `path`, one folder a class, without reading any.

    Where `path` has a folder `train`, classes are in it and in `val` (or `test`) beside it, with the same names.
    Otherwise they are in `path`, and a random `test_fraction` of the images, drawn by `seed`, is for testing.

    Raises InvalidArgumentError for a folder without classes, a class without images, and classes of `val` that are not
    those of `train`.

    >>> open_image_folder("there/is/none")
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: there/is/none is not a folder; expected one with a folder of images for \
each class
    """
    folder = Path(path).expanduser()
    if (folder / "train").is_dir():
        held = [name for name in _TEST_FOLDERS if (folder / name).is_dir()]
        if not held:
            raise InvalidArgumentError(f"{folder} has a folder train, but none called {' or '.join(_TEST_FOLDERS)}")
        train, classes = _listed(folder / "train", folder)
        test, others = _listed(folder / held[0], folder)
        if others != classes:
            odd = sorted(set(classes) ^ set(others))[0]
            raise InvalidArgumentError(f"train and {held[0]} in {folder} have different classes, such as {odd}")
        return ImageFolder(folder, train, test, classes)
    if not 0 < test_fraction < 1:
        raise InvalidArgumentError(f"test_fraction is {test_fraction!r}; it must lie between 0 and 1")
    files, classes = _listed(folder, folder)
    order = np.random.default_rng(check_whole("seed", seed, 0)).permutation(len(files))
    held_out = min(max(1, round(test_fraction * len(files))), len(files) - 1)
    return ImageFolder(folder, files[order[held_out:]], files[order[:held_out]], classes)


def _listed(classes: Path, folder: Path) -> tuple[ImageFiles, tuple[str, ...]]:
    """The files of every class, their names relative to `folder`."""
    files, names = class_files(classes)
    return ImageFiles(
        folder, tuple(str(place.relative_to(folder)) for place, _ in files), np.array([label for _, label in files])
    ), names


def _read(pixels: int, path: Path, crop: np.ndarray | None) -> np.ndarray:
    from PIL import Image, ImageOps

    def part_of(image: Any) -> np.ndarray:
        if crop is None:
            image.draft("RGB", (pixels, pixels))  # a JPEG is decoded no larger than it takes
        width, height = image.size
        box = _centre(width, height) if crop is None else _part(width, height, crop)
        seen = image.convert("RGB").resize((pixels, pixels), Image.Resampling.BILINEAR, box=box)
        return np.asarray(ImageOps.mirror(seen) if crop is not None and crop[4] < 0.5 else seen, np.uint8)

    return read_image(path, part_of)


def _centre(width: int, height: int) -> tuple[float, float, float, float]:
    """The largest square in the middle: left, top, right, bottom."""
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _part(width: int, height: int, crop: np.ndarray) -> tuple[float, float, float, float]:
    """The box of a crop, cut off where it is wider or higher than the image."""
    area = (_LEAST_AREA + (1 - _LEAST_AREA) * crop[0]) * width * height
    ratio = _MOST_RATIO ** (2 * crop[1] - 1)
    w, h = min(math.sqrt(area * ratio), width), min(math.sqrt(area / ratio), height)
    left, top = crop[2] * (width - w), crop[3] * (height - h)
    return left, top, min(left + w, width), min(top + h, height)
