"""Images in one folder a class (CLASS/*.tif): sampled by seed, averaged down to one size, split into train and test."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_whole
from equitangents_studies.data.dataset import Dataset
from equitangents_studies.data.image_file import SUFFIXES, coloured, is_image_name, pixels_of, read_image
from equitangents_studies.data.images import resize


def load_class_folders(
    path: str | Path,
    *,
    count: int | None = 10_000,
    size: int = 32,
    test_fraction: float = 1 / 12,
    seed: int = 0,
    name: str = "",
    citation: str = "",
) -> Dataset:
    """`count` random images (None: all) from the folders in `path`, one a class: the layout of NCT-CRC-HE-100K.

    Images become RGB of `size` × `size` pixels by averaging over areas, which commutes with quarter turns. Classes are
    the folders' names, sorted. The last `test_fraction` of the sample is for testing. Equal seeds give equal samples.

    Raises InvalidArgumentError for a folder without classes, a class without images, an image that cannot be read or is
    smaller than `size`, and where there are fewer than `count`.
    """
    check_whole("size", size, 1)
    if count is not None:
        check_whole("count", count, 2)
    if not 0 < test_fraction < 1:
        raise InvalidArgumentError(f"test_fraction was {test_fraction}; it must lie between 0 and 1")
    folder = Path(path).expanduser()
    files, classes = class_files(folder)
    if count is not None and count > len(files):
        raise InvalidArgumentError(f"{count} images were asked for; {folder} holds {len(files)}")
    chosen = np.random.default_rng(seed).permutation(len(files))[:count]
    x = _read(tuple(files[i][0] for i in chosen), size)
    y = np.array([files[i][1] for i in chosen], dtype=np.int64)
    split = len(x) - min(max(1, round(test_fraction * len(x))), len(x) - 1)
    return Dataset(
        name=name or folder.name,
        train_x=x[:split],
        train_y=y[:split],
        test_x=x[split:],
        test_y=y[split:],
        class_names=classes,
        citation=citation,
    )


def class_files(folder: Path) -> tuple[list[tuple[Path, int]], tuple[str, ...]]:
    """Every image with the number of its class, in an order that no file system changes; and the classes."""
    if not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is not a folder; expected one with a folder of images for each class")
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(classes) < 2:
        number = "no folder" if not classes else "one folder"
        raise InvalidArgumentError(
            f"{folder} holds {number}; expected one for each class, 2 or more, with images in it (CLASS/*.tif)"
        )
    files: list[tuple[Path, int]] = []
    for label, place in enumerate(classes):
        own = sorted(p for p in place.iterdir() if is_image_name(p))
        if not own:
            raise InvalidArgumentError(f"the class folder {place} holds no image ({', '.join(SUFFIXES)})")
        files += [(p, label) for p in own]
    return files, tuple(p.name for p in classes)


@lru_cache(maxsize=1)  # a study reads its images once to check them, and once to use them
def _read(paths: tuple[Path, ...], size: int) -> np.ndarray:
    """The images as float32 (N, size, size, 3) in [0, 1], read-only."""
    x = np.empty((len(paths), size, size, 3), np.float32)
    for i, path in enumerate(paths):
        pixels = coloured(read_image(path, pixels_of))[None]
        if min(pixels.shape[1:3]) < size:
            raise InvalidArgumentError(
                f"{path} is {pixels.shape[1]}×{pixels.shape[2]}; it is smaller than size = {size}"
            )
        x[i] = resize(pixels, (size, size))[0]
    x.setflags(write=False)
    return x
