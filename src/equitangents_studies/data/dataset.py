"""A labelled data set: two stacks of signals in [0, 1], channels last, with integer labels; and images without files.

Images without files are the digits of scikit-learn, patches of photographs, and noise.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import EquitangentsError, InvalidArgumentError, ShapeError
from equitangents_studies.data.images import conform


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
        """Number of classes."""
        return len(self.class_names)

    @property
    def targets(self) -> Float[np.ndarray, "n classes"]:
        """One-hot labels of the training images minus 1/K, for squared loss."""
        return np.eye(self.classes)[self.train_y] - 1 / self.classes

    @property
    def pooled(self) -> tuple[Float[np.ndarray, "n height width channels"], Int[np.ndarray, " n"]]:
        """All images, training images first, and their labels."""
        return np.concatenate([self.train_x, self.test_x]), np.concatenate([self.train_y, self.test_y])

    def subset(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> Dataset:
        """At most `train` training and `test` test images, classes in the same proportions; the same for equal seeds.

        Raises InvalidArgumentError if there are fewer images.
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
    """Rows of `count` samples in random order such that every prefix has the class proportions of the set."""
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


_CITATION = (
    "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (1998), "
    "as shipped with scikit-learn."
)


def digits() -> Dataset:
    """The digits, scaled from 0..16 to [0, 1], split class by class; the split never changes.

    A fifth is for testing. Shapes: images `(N, 8, 8, 1)`.

    Example:
        >>> digits().train_x.shape
        (1438, 8, 8, 1)
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    images = (source.images[..., None] / 16.0).astype(np.float32)
    labels = source.target.astype(np.int64)
    rng = np.random.default_rng(0)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        rows = rng.permutation(np.flatnonzero(labels == label))
        test[rows[: round(0.2 * len(rows))]] = True
    order = rng.permutation(len(labels))
    train_rows, test_rows = order[~test[order]], order[test[order]]
    return Dataset(
        name="digits",
        train_x=images[train_rows],
        train_y=labels[train_rows],
        test_x=images[test_rows],
        test_y=labels[test_rows],
        class_names=tuple(str(d) for d in range(10)),
        citation=_CITATION,
    )


def gaussian_noise(count: int, shape: tuple[int, ...], *, seed: int = 0) -> Float[np.ndarray, "n ..."]:
    """`count` float32 arrays of independent standard normal values; the same for equal seeds."""
    if count < 1:
        raise InvalidArgumentError("count", count, "at least 1")
    return np.random.default_rng(seed).normal(0.0, 1.0, size=(count, *shape)).astype(np.float32)


_SCALES = (2.0, 12.0)


def photo_patches(
    count: int, shape: tuple[int, int, int] = (8, 8, 1), *, seed: int = 0
) -> Float[np.ndarray, "n height width channels"]:
    """`count` square patches of the two photographs that ship with scikit-learn, float32 in [0, 1], resized to `shape`.

    A patch's side is `shape[0]` times a factor drawn log-uniformly from 2 to 12; its place is uniform; patches
    without contrast (standard deviation below 2 % of full scale) are drawn again. Grey where `shape` has one channel.
    Raises InvalidArgumentError for a shape that is not square or larger than the photographs.
    """
    height, width, _ = shape
    if count < 1:
        raise InvalidArgumentError("count", count, "at least 1")
    if height != width:
        raise InvalidArgumentError("shape", shape, "a square")
    photographs = _photographs()
    largest = min(min(p.shape[:2]) for p in photographs)
    if height > largest:
        raise InvalidArgumentError("shape", shape, "at most the sides of the photographs", str(largest))
    rng = np.random.default_rng(seed)
    patches: list[np.ndarray] = []
    while len(patches) < count:
        photograph = photographs[rng.integers(len(photographs))]
        factor = np.exp(rng.uniform(*np.log(_SCALES)))
        side = int(np.clip(round(height * factor), height, largest))
        i, j = (int(rng.integers(size - side + 1)) for size in photograph.shape[:2])
        patch = conform(photograph[None, i : i + side, j : j + side], shape)[0]
        if patch.std() > 0.02:
            patches.append(patch)
    return np.stack(patches)


@functools.cache
def _photographs() -> tuple[np.ndarray, ...]:
    from sklearn.datasets import load_sample_images

    try:
        images = load_sample_images().images
    except ImportError as error:
        raise EquitangentsError(f"reading scikit-learn's photographs needs pillow: {error}") from None
    return tuple(np.asarray(image, dtype=np.float32) / np.float32(255) for image in images)
