"""A labelled data set: two stacks of signals in [0, 1], channels last, with integer labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError, ShapeError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images with their labels.

    Shapes: `train_x` and `test_x` are float32 `(N, H, W, C)` with values in [0, 1]; `train_y` and `test_y` are int64
    `(N,)`, indices into `class_names`. `train_tile` and `test_tile` number the specimen an image was cut from, where
    the set knows it: images of one tile must not be split between training and test.
    """

    name: str
    train_x: Float[np.ndarray, "n height width channels"]
    train_y: Int[np.ndarray, " n"]
    test_x: Float[np.ndarray, "m height width channels"]
    test_y: Int[np.ndarray, " m"]
    class_names: tuple[str, ...]
    citation: str = ""
    train_tile: Int[np.ndarray, " n"] | None = field(default=None)
    test_tile: Int[np.ndarray, " m"] | None = field(default=None)

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"{part}_x"), getattr(self, f"{part}_y")
            if x.ndim != 4:
                raise ShapeError(part, x.shape, "(N, H, W, C)", self.name)
            if len(x) != len(y):
                raise ShapeError(part, len(y), len(x), "a label for each image", verb="has labels,")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one image."""
        height, width, channels = self.train_x.shape[1:]
        return height, width, channels

    @property
    def classes(self) -> int:
        """How many classes the labels have."""
        return len(self.class_names)

    @property
    def pooled(self) -> tuple[Float[np.ndarray, "n height width channels"], Int[np.ndarray, " n"]]:
        """All images, those to train on first, and their labels."""
        return np.concatenate([self.train_x, self.test_x]), np.concatenate([self.train_y, self.test_y])

    def subset(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> Dataset:
        """At most `train` training and `test` test images, classes in the same proportions; the same for equal seeds.

        Raises InvalidArgumentError where more images are asked for than there are.
        """
        rng = np.random.default_rng(seed)
        picks = {
            "train": balanced(self.train_y, train, rng, f"train images of {self.name!r}"),
            "test": balanced(self.test_y, test, rng, f"test images of {self.name!r}"),
        }
        changes: dict[str, Any] = {}
        for part, rows in picks.items():
            for what in ("x", "y", "tile"):
                array = getattr(self, f"{part}_{what}")
                changes[f"{part}_{what}"] = None if array is None else array[rows]
        return replace(self, **changes)


def balanced(y: np.ndarray, count: int | None, rng: np.random.Generator, what: str) -> np.ndarray:
    """Rows of `count` samples: each class shuffled, then dealt so that every prefix is as balanced as the set."""
    if count is None:
        return np.arange(len(y))
    if not 0 < count <= len(y):
        raise InvalidArgumentError(what, count, range(1, len(y) + 1), verb="number")
    order = rng.permutation(len(y))
    rank = np.empty(len(y))
    for label in np.unique(y):
        rows = order[y[order] == label]
        rank[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return np.argsort(rank, kind="stable")[:count]
