"""Generated images with masks, on a torus: cells with a bright membrane, or bright digits, on striped textures.

Of a cell, membrane and inside count; the inside looks as the ground does, so that it takes a neighbourhood to tell.
Every image is turned by a random quarter turn, so that C4 is a symmetry of the law of images and masks; inverting the
contrast is none.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float

from equitangents_studies import data

SHAPES = ("cells", "digits")
_LENGTHS = (1.2, 0.3)  # over which the texture is alike, along and across its stripes, in pixels
_GROUND, _BRIGHT, _NOISE = 0.6, 2.0, 0.2
_RADII = (0.16, 0.32)  # of cells, in sides of the image
_MEMBRANE = 0.35  # share of a cell's area inside its membrane
_INK = 0.4


def scenes(
    count: int, pixels: int, shapes: str, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "n pixels pixels 1"], Float[np.ndarray, "n pixels pixels 1"]]:
    """(images, masks of 0 and 1) of `count` scenes; the same for the same seed."""
    rng = np.random.default_rng(seed)
    drawn = [(_cells if shapes == "cells" else _digit)(pixels, rng) for _ in range(count)]
    masks, bright = (np.stack(part) for part in zip(*drawn, strict=True))
    x = _GROUND * _stripes(count, pixels, rng) + _BRIGHT * bright + _NOISE * rng.standard_normal(masks.shape)
    turns = rng.integers(4, size=count)
    turned = lambda z: np.stack([np.rot90(image, k) for image, k in zip(z, turns, strict=True)])[..., None]
    return turned(x), turned(masks.astype(np.float64))


def _stripes(count: int, pixels: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise smoothed more along rows of pixels than across, of mean 0 and standard deviation 1."""
    k = np.fft.fftfreq(pixels)
    along, across = _LENGTHS
    kept = np.exp(-2 * np.pi**2 * ((across * k[:, None]) ** 2 + (along * k[None]) ** 2))
    noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((count, pixels, pixels))) * kept).real
    found: np.ndarray = noise * pixels / np.sqrt((kept**2).sum())
    return found


def _cells(pixels: int, rng: np.random.Generator) -> tuple[Bool[np.ndarray, "p p"], Bool[np.ndarray, "p p"]]:
    """(cells, their membranes): one or two ellipses at random places, continued across the borders."""
    mask, membrane = (np.zeros((pixels, pixels), bool) for _ in range(2))
    at = np.indices((pixels, pixels))
    for _ in range(rng.integers(1, 3)):
        centre, radii, angle = rng.uniform(0, pixels, 2), pixels * rng.uniform(*_RADII, 2), rng.uniform(0, np.pi)
        apart = (at - centre[:, None, None] + pixels / 2) % pixels - pixels / 2
        along = np.cos(angle) * apart[0] + np.sin(angle) * apart[1]
        across = np.cos(angle) * apart[1] - np.sin(angle) * apart[0]
        distance = (along / radii[0]) ** 2 + (across / radii[1]) ** 2
        mask |= distance < 1
        membrane |= (distance < 1) & (distance > _MEMBRANE)
    return mask, membrane


def _digit(pixels: int, rng: np.random.Generator) -> tuple[Bool[np.ndarray, "p p"], Bool[np.ndarray, "p p"]]:
    """(a handwritten digit, itself) at a random place; its 8 × 8 pixels enlarged by a whole factor, or cut off."""
    known = _digits()
    factor = max(1, pixels // 8)
    digit = np.kron(known[rng.integers(len(known))], np.ones((factor, factor), bool))[:pixels, :pixels]
    mask = np.zeros((pixels, pixels), bool)
    mask[: digit.shape[0], : digit.shape[1]] = digit
    mask = np.roll(mask, tuple(rng.integers(pixels, size=2)), (0, 1))
    return mask, mask


@lru_cache(maxsize=1)
def _digits() -> Bool[np.ndarray, "n 8 8"]:
    return data.digits().pooled[0][..., 0] > _INK
