"""Inputs that no training set resembles and that need no files: Gaussian noise and patches of two photographs."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents_studies.data.images import conform


def gaussian_noise(
    n: int, shape: tuple[int, ...], *, seed: int = 0, mean: float = 0.0, std: float = 1.0
) -> Float[np.ndarray, "n ..."]:
    """`n` float32 arrays of independent normal values; the same for equal seeds."""
    if n < 1:
        raise InvalidArgumentError(f"n was {n}; it must be at least 1")
    values = np.random.default_rng(seed).normal(mean, std, size=(n, *shape))
    return values.astype(np.float32)


def photo_patches(
    n: int, shape: tuple[int, int, int] = (8, 8, 1), *, seed: int = 0, scales: tuple[float, float] = (2.0, 12.0)
) -> Float[np.ndarray, "n height width channels"]:
    """`n` square patches of the two photographs that ship with scikit-learn, float32 in [0, 1], resized to `shape`.

    A patch's side is `shape[0]` times a factor drawn log-uniformly from `scales`; its place is uniform; patches
    without contrast (standard deviation below 2 % of full scale) are drawn again. Grey where `shape` has one channel.
    Raises InvalidArgumentError for a shape that is not square or larger than the photographs.
    """
    height, width, _ = shape
    if n < 1:
        raise InvalidArgumentError(f"n was {n}; it must be at least 1")
    if height != width:
        raise InvalidArgumentError(f"shape was {shape}; patches are square")
    photographs = _photographs()
    largest = min(min(p.shape[:2]) for p in photographs)
    if height > largest:
        raise InvalidArgumentError(f"shape was {shape}; patches of the photographs are at most {largest} pixels wide")
    rng = np.random.default_rng(seed)
    patches: list[np.ndarray] = []
    while len(patches) < n:
        photograph = photographs[rng.integers(len(photographs))]
        factor = np.exp(rng.uniform(*np.log(scales)))
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
