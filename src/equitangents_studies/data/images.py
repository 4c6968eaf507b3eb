"""Small image operations that data sets need: area resizing, grey values, standardising."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError

_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def area_weights(size_in: int, size_out: int) -> Float[np.ndarray, "size_out size_in"]:
    """Row i holds the fraction of output cell i that each input cell covers; rows sum to 1."""
    if size_in < 1 or size_out < 1:
        raise InvalidArgumentError(f"sizes were {size_in} and {size_out}; both must be at least 1")
    edges_out = np.arange(size_out + 1) * (size_in / size_out)
    edges_in = np.arange(size_in + 1, dtype=float)
    low = np.maximum(edges_out[:-1, None], edges_in[None, :-1])
    high = np.minimum(edges_out[1:, None], edges_in[None, 1:])
    return np.clip(high - low, 0, None) * (size_out / size_in)


def resize(
    images: Float[np.ndarray, "n height width channels"], shape: tuple[int, int]
) -> Float[np.ndarray, "n new_height new_width channels"]:
    """Resize by averaging over areas, the same for every orientation: it commutes with quarter turns of squares."""
    if images.ndim != 4:
        raise ShapeError(f"images have shape {images.shape}; expected (N, H, W, C)")
    if images.shape[1:3] == tuple(shape):
        return images
    rows = area_weights(images.shape[1], shape[0]).astype(images.dtype)
    columns = area_weights(images.shape[2], shape[1]).astype(images.dtype)
    # Without BLAS, whose last digits depend on the number of threads: a run may be resumed with another number of them.
    return np.einsum("jw,niwc->nijc", columns, np.einsum("ih,nhwc->niwc", rows, images))


def grey(images: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width 1"]:
    """Luminance of RGB images (ITU-R BT.601 weights); single-channel images are returned as they are."""
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ShapeError(f"images have shape {images.shape}; expected (N, H, W, 1) or (N, H, W, 3)")
    if images.shape[-1] == 1:
        return images
    return (images @ _LUMA.astype(images.dtype))[..., None]


def conform(
    images: Float[np.ndarray, "n height width channels"], shape: tuple[int, int, int]
) -> Float[np.ndarray, "n new_height new_width new_channels"]:
    """Images of another set brought to (H, W, C): made grey where C = 1, repeated where C = 3, then resized."""
    if shape[2] not in (1, 3):
        raise InvalidArgumentError(f"shape was {shape}; images have 1 or 3 channels")
    if shape[2] == 1:
        images = grey(images)
    elif images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    return resize(images, shape[:2])
