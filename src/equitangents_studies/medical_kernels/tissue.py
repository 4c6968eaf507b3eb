"""Tissue, as large folders give it, and kernels between its tiles and their copies under every element of a group.

Labelled images for kernels: training and test images pooled, brought to one size, and split anew in folds.

Pixels in [0, 1] become (p − 1/2)/(1/4): the same for every image, so that stain and brightness stay what they are.

Kernels between images and their copies under every element of a group, each pair of inputs once.

Θ_g(x, x′) = Θ(x, ρ(g)x′); of an invariant kernel Θ_{g⁻¹} = Θ_gᵀ, and the mean over a subgroup H is the kernel of the
network that is invariant under H (arXiv 2406.06504, Theorem 5.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents.actions import Action
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import KeptKernel
from equitangents_studies import data
from equitangents_studies.systems.grams import GroupGrams


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
    x, y = source.pooled
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


def element_kernels(
    kernel: KeptKernel, action: Action, x: Float[np.ndarray, "n ..."], step: Callable[[float, float], None]
) -> GroupGrams:
    """The NTK Θ_g, (N, N), for one element of each pair g, g⁻¹; `step(done, total)` counts tiles.

    Raises InvalidArgumentError where the kernel of single images is not invariant, so that one orbit does not suffice.
    """
    group, n = action.group, len(x)
    if not kernel.invariant_under(action, x.shape[1:]):
        raise InvalidArgumentError(f"the kernel is not known to be invariant under {action.name}")
    elements = [g for g in range(group.order) if g <= group.inverse(g)]
    slices = kernel.slices(n)
    tiles = [(g, a, b) for g in elements for a in slices for b in slices if group.inverse(g) != g or b.start >= a.start]
    grams = {g: np.empty((n, n), x.dtype) for g in elements}
    moved: dict[int, np.ndarray] = {}
    read = 0
    for done, (g, a, b) in enumerate(tiles, 1):
        if g not in moved:
            moved = {g: np.asarray(action(g, x))}
        same = g == group.identity and a == b
        found, known = kernel.one_tile(x[a], None if same else moved[g][b])
        read += known
        grams[g][a, b] = block = found.ntk
        if group.inverse(g) == g and a != b:
            grams[g][b, a] = block.T
        step(done, len(tiles))
    kernel.report(read, len(tiles))
    return GroupGrams(group, grams)


def elements_of(part: Action, whole: Action, x: Float[np.ndarray, "n ..."]) -> list[int]:
    """The elements of `whole` that move the inputs x as those of `part` do, in the order of `part`."""
    copies = np.asarray(whole.orbit(x))
    return [
        int(np.argmax([np.array_equal(image, np.asarray(part(h, x))) for image in copies]))
        for h in range(part.group.order)
    ]
