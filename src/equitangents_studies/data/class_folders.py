"""Images in one folder a class, listed, and read when they are needed.

Two layouts: CLASS/*.jpg, of which a share is held out for testing; or train/CLASS/*.jpg and val/CLASS/*.jpg (or test/).
"""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int, UInt8

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_whole
from equitangents_studies.data.images import SUFFIXES, centre, is_image_name, read_image

if TYPE_CHECKING:
    from PIL.Image import Image

_TEST_FOLDERS = ("val", "test")
_LEAST_AREA, _MOST_RATIO = 0.08, 4 / 3  # of crops, as ImageNet is usually trained on


def class_files(
    place: Path, root: Path | None = None, *, deep: bool = False, name: str = "path"
) -> tuple[ImageFiles, tuple[str, ...]]:
    """All images in `place`, in an order independent of the file system, and the classes; names relative to `root`.

    deep: include images in subfolders of a class's folder. name: of the argument, for errors.
    """
    if not place.is_dir():
        raise InvalidArgumentError(name, str(place), "a folder with a folder of images for each class")
    classes = sorted(p for p in place.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(classes) < 2:
        raise InvalidArgumentError(
            name, str(place), "two folders or more, one for each class, with images in them", ", ".join(SUFFIXES)
        )
    root, names, labels = root or place, list[str](), list[int]()
    for label, folder in enumerate(classes):
        inside = (p for p in folder.iterdir() if deep and p.is_dir() and not p.name.startswith("."))
        own = sorted(p for source in (folder, *inside) for p in source.iterdir() if is_image_name(p))
        if not own:
            raise InvalidArgumentError(name, str(folder), "images in the folder of a class", ", ".join(SUFFIXES))
        names += [p.relative_to(root).as_posix() for p in own]
        labels += [label] * len(own)
    return ImageFiles(root, tuple(names), np.array(labels, np.int64)), tuple(p.name for p in classes)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImageFiles:
    """Names of image files below `folder`, and class numbers `labels` (N,)."""

    folder: Path
    names: tuple[str, ...]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: np.ndarray) -> ImageFiles:
        """Select files; nothing is read."""
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

        A square of that size is not resampled; smaller ones are enlarged. `crops` (numbers in [0, 1]) select a random
        crop instead: area (8 to 100 %), aspect ratio (3:4 to 4:3), place from the left, place from the top, mirrored if
        below 1/2. `workers` threads read images in parallel.

        Raises InvalidArgumentError that names a file that is no image.
        """
        check_whole("pixels", pixels, 1)
        places = [self.folder / self.names[i] for i in rows]
        parts = [None] * len(places) if crops is None else list(crops)
        found = list((workers.map if workers else map)(partial(_seen, pixels), places, parts))
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
        """A hash of the names of files and classes and of their split."""
        hashed = hashlib.sha256(repr(self.class_names).encode())
        for part in (self.train, self.test):
            hashed.update("\n".join(part.names).encode())
            hashed.update(np.asarray(part.labels, np.int64).tobytes())
        return hashed.hexdigest()


def open_image_folder(path: str | Path, *, test_fraction: float = 0.1, seed: int = 0) -> ImageFolder:
    """List the images in `path`, one folder a class, without reading any.

    If `path` has a folder `train`, classes are in `train` and in `val` (or `test`), with the same names. Otherwise they
    are in `path`, and a random `test_fraction` of the images, drawn by `seed`, is for testing.

    Raises InvalidArgumentError for a folder without classes, a class without images, and classes of `val` that are not
    those of `train`.

    >>> open_image_folder("there/is/none")
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: path is 'there/is/none'; expected a folder with a folder of images for \
each class
    """
    folder = Path(path).expanduser()
    if (folder / "train").is_dir():
        held = [name for name in _TEST_FOLDERS if (folder / name).is_dir()]
        if not held:
            raise InvalidArgumentError(
                "path", str(folder), list(_TEST_FOLDERS), "next to the folder train", verb="lacks a folder,"
            )
        train, classes = class_files(folder / "train", folder)
        test, others = class_files(folder / held[0], folder)
        if others != classes:
            odd = sorted(set(classes) ^ set(others))[0]
            raise InvalidArgumentError("path", str(folder), "equal classes in its two folders", odd)
        return ImageFolder(folder, train, test, classes)
    if not 0 < test_fraction < 1:
        raise InvalidArgumentError("test_fraction", test_fraction, "between 0 and 1")
    files, classes = class_files(folder)
    order = np.random.default_rng(check_whole("seed", seed, 0)).permutation(len(files))
    held_out = min(max(1, round(test_fraction * len(files))), len(files) - 1)
    return ImageFolder(folder, files[order[held_out:]], files[order[:held_out]], classes)


def _seen(pixels: int, path: Path, crop: np.ndarray | None) -> np.ndarray:
    from PIL import ImageOps
    from PIL.Image import Resampling

    def part_of(image: Image) -> np.ndarray:
        if crop is None:
            image.draft("RGB", (pixels, pixels))  # a JPEG is decoded no larger than it takes
        width, height = image.size
        box = _centre(width, height) if crop is None else _part(width, height, crop)
        seen = image.convert("RGB").resize((pixels, pixels), Resampling.BILINEAR, box=box)
        return np.asarray(ImageOps.mirror(seen) if crop is not None and crop[4] < 0.5 else seen, np.uint8)

    return read_image(path, part_of)


def _centre(width: int, height: int) -> tuple[float, float, float, float]:
    """The largest square in the middle: left, top, right, bottom."""
    rows, columns = centre(height, width)
    return columns.start, rows.start, columns.stop, rows.stop


def _part(width: int, height: int, crop: np.ndarray) -> tuple[float, float, float, float]:
    """The box of a crop, clipped to the image."""
    area = (_LEAST_AREA + (1 - _LEAST_AREA) * crop[0]) * width * height
    ratio = _MOST_RATIO ** (2 * crop[1] - 1)
    w, h = min(math.sqrt(area * ratio), width), min(math.sqrt(area / ratio), height)
    left, top = crop[2] * (width - w), crop[3] * (height - h)
    return left, top, min(left + w, width), min(top + h, height)
