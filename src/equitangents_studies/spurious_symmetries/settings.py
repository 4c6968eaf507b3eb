"""Settings of the study of spurious symmetries, and the images that they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents_studies.common.system_images import load_system_images, repeated_images
from equitangents_studies.framework.study import at_least, check
from equitangents_studies.systems import ARCHITECTURES
from equitangents_studies.systems.data_groups import NAMES as GROUPS

__all__ = ["ARCHITECTURES", "GROUPS", "INFERENCES", "PRESETS", "SMALL_GROUPS", "SMALL_MODELS", "Settings"]

INFERENCES = ("NTK", "NN", "NN+")
SMALL_MODELS = ("FCN", "VEC", "GAP")
SMALL_GROUPS = ("I", "O(3)^d", "P(3d)", "O(3d)")  # that move the images of GAP; it is symmetric under O(3)xI


@dataclass(frozen=True)
class Settings:
    """`data` as in `symmetry-groups`. Figure 2: in each of `repetitions` all six architectures of `depth` hidden layers
    and `width` channels (FCN 8 times as many, LCN a quarter) see `train_images` and `test_images` of their own,
    averaged down to `pixels`; networks are trained for at most `epochs`.

    Infinite width, `kernel_depth` layers: of every one of `models` as many of the `images` at `kernel_pixels`, each
    tested once in `folds` parts; those in `moved` on data moved by every group, too. FCN, VEC and GAP also on
    `small_images` of `small_pixels`, GAP on moved ones, too. `ridge`: relative to the mean diagonal of kernels.
    """

    data: str = "auto"
    train_images: int = 60
    test_images: int = 200
    pixels: int = 8
    depth: int = 1
    width: int = 32
    epochs: int = 300
    repetitions: int = 3
    models: tuple[str, ...] = ("FCN", "VEC", "LAP4", "LAP8")
    images: tuple[int, ...] = (1200, 1200, 400, 240)
    moved: tuple[str, ...] = ("FCN", "VEC")
    kernel_pixels: int = 16
    kernel_depth: int = 8
    small_images: int = 240
    small_pixels: int = 16
    folds: int = 6
    smallest: int = 20
    ridge: float = 1e-4
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        train_images=120, test_images=400, depth=2, epochs=1500, repetitions=4,
        models=("FCN", "VEC", "LAP4", "LAP8", "GAP"), images=(12000, 12000, 1200, 720, 540), kernel_pixels=32,
        small_images=960,
    ),
    "paper": Settings(
        data="cifar10", train_images=45000, test_images=5000, pixels=32, depth=8, width=128, epochs=900, repetitions=5,
        models=("FCN", "VEC", "LAP4", "LAP8", "GAP"), images=(50000, 50000, 50000, 50000, 50000), kernel_pixels=32,
        small_images=6000, folds=10,
    ),
}  # fmt: skip


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Images that blocks of 8 fit on, and enough of them for a curve."""
    s = settings
    at_least(s, train_images=10, test_images=5, pixels=8, depth=1, width=4, epochs=1, repetitions=2, folds=2)
    at_least(s, kernel_pixels=8, kernel_depth=1, small_pixels=8, smallest=10)
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    for name in ("pixels", "kernel_pixels", "small_pixels"):
        check(getattr(s, name) % 8 == 0, name, getattr(s, name), "a multiple of 8, which LAP8 pools over")
    check(len(s.models) >= 1 and set(s.models) <= set(ARCHITECTURES), "models", s.models,
          f"of {', '.join(ARCHITECTURES)}")  # fmt: skip
    check(len(s.images) == len(s.models), "images", s.images, f"as many numbers as there are models, {len(s.models)}")
    check(set(s.moved) <= set(s.models), "moved", s.moved, f"of the models, {', '.join(s.models)}")
    for name, count in (*(("images", n) for n in s.images), ("small_images", s.small_images)):
        check(len(sizes_of(count, s.folds, s.smallest)) >= 3, name, count, f"enough for 3 sizes from {s.smallest} on")
    repeated_images(s, data_dir, s.repetitions)
    pool_images(s, data_dir, max(s.images), s.kernel_pixels)


def architectures_of(settings: Settings) -> tuple[str, ...]:
    """Those of figure 2 that differ: with 8 pixels a side LAP8 is GAP."""
    return tuple(name for name in ARCHITECTURES if name != "LAP8" or settings.pixels > 8)


def sizes_of(count: int, folds: int, smallest: int) -> np.ndarray:
    """Training sizes of a pool: from the smallest on by factors of about √2 to what the largest fold leaves."""
    most = count - -(-count // folds)
    steps = int(2 * np.log2(most / smallest)) + 1 if most >= smallest else 0
    return np.unique(np.round(np.geomspace(smallest, max(most, smallest), max(steps, 1))).astype(int))


def pool_images(settings: Settings, data_dir: Path | None, count: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """So many images of the data, in float32, and their classes: training images, then test images where those are too
    few, since every image of a pool is tested once by others.
    """
    s = settings
    found = load_system_images(s.data, data_dir, train=count, test=1, pixels=pixels, seed=s.seed)
    x, y = found.train_x, found.train_y
    if len(x) < count:
        found = load_system_images(s.data, data_dir, train=count, test=count - len(x), pixels=pixels, seed=s.seed)
        x, y = np.concatenate([found.train_x, found.test_x]), np.concatenate([found.train_y, found.test_y])
    check(count <= len(x), "images", count, f"at most {len(x)}, which {found.name} has")
    return x[:count].astype(np.float32), y[:count]
