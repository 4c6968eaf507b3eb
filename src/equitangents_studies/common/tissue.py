"""Labelled images for kernels: training and test images pooled, brought to one size, and split anew in folds.

Pixels in [0, 1] become (p − 1/2)/(1/4): the same for every image, so that stain and brightness stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError
from equitangents_studies import data


@dataclass(frozen=True, eq=False)
class Tissue:
    """Images (N, pixels, pixels, C) with labels; `specimen` numbers what must stay on one side of a split."""

    x: Float[np.ndarray, "n height width channels"]
    y: Int[np.ndarray, " n"]
    specimen: Int[np.ndarray, " n"]
    class_names: tuple[str, ...]
    knows_specimens: bool

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    def folds(self, count: int, seed: int) -> Int[np.ndarray, " n"]:
        """The fold of every image: specimens whole, those of each class dealt out in random order."""
        rng = np.random.default_rng(seed)
        fold = np.empty(len(self.x), int)
        for label in range(self.classes):
            own = np.unique(self.specimen[self.y == label])
            dealt = dict(zip(rng.permutation(own), np.arange(len(own)) % count, strict=True))
            rows = np.flatnonzero(self.y == label)
            fold[rows] = [dealt[s] for s in self.specimen[rows]]
        return fold


def load_tissue(name: str, data_dir: Path | None, *, count: int | None, pixels: int, seed: int) -> Tissue:
    """`count` images (None: all) of a data set, classes in proportion, resized by averaging over areas.

    Raises DataNotFoundError where the file is missing, InvalidArgumentError for images that are too small or too few.
    """
    source = data.load(name, data_dir)
    height, width, _ = source.shape
    if height != width or pixels > height:
        raise InvalidArgumentError(f"images of {name!r} are {height}×{width}; pixels was {pixels}")
    x, y = np.concatenate([source.train_x, source.test_x]), np.concatenate([source.train_y, source.test_y])
    tiles = source.train_tile is not None and source.test_tile is not None
    specimen = np.concatenate([source.train_tile, source.test_tile]) if tiles else np.arange(len(x))
    if count is not None and count > len(x):
        raise InvalidArgumentError(f"images was {count}; {name!r} has {len(x)}")
    rng = np.random.default_rng(seed)
    rank = np.empty(len(x))
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        rank[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    chosen = np.argsort(rank, kind="stable")[:count]
    small = data.resize(x[chosen], (pixels, pixels))
    return Tissue(((small - 0.5) / 0.25).astype(np.float32), y[chosen], specimen[chosen], source.class_names, tiles)
