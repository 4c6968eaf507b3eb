"""Image files of four formats, and operations on images: averaging down, cropping, conversion to grey.

The size that a file's header claims is checked against memory before its pixels are read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy.sparse
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import UNREADABLE, check_fits

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp")
_FORMATS = ("TIFF", "PNG", "JPEG", "BMP")  # Pillow knows more, some of which run other programs
_DEFLATED = 1100  # times: zeros shrink by 1,032 at most
_HELD = 8  # bytes of each number of an image while it is read: as it is decoded, and in float32
_GREY = ("1", "L", "LA", "La")

Read = TypeVar("Read")
_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def area_weights(size_in: int, size_out: int) -> Float[np.ndarray, "size_out size_in"]:
    """Row i holds the fraction of output cell i that each input cell covers; rows sum to 1."""
    if size_in < 1 or size_out < 1:
        raise InvalidArgumentError("sizes", (size_in, size_out), "at least 1", verb="were")
    edges_out = np.arange(size_out + 1) * (size_in / size_out)
    edges_in = np.arange(size_in + 1, dtype=float)
    low = np.maximum(edges_out[:-1, None], edges_in[None, :-1])
    high = np.minimum(edges_out[1:, None], edges_in[None, 1:])
    return np.clip(high - low, 0, None) * (size_out / size_in)


def resize(
    images: Float[np.ndarray, "n height width channels"], shape: tuple[int, int]
) -> Float[np.ndarray, "n new_height new_width channels"]:
    """Resize by averaging over areas; it commutes with rotations of squares by 90°."""
    if images.ndim != 4:
        raise ShapeError("images", images.shape, "(N, H, W, C)", verb="have shape")
    if images.shape[1:3] == tuple(shape):
        return images
    rows = area_weights(images.shape[1], shape[0]).astype(images.dtype)
    columns = area_weights(images.shape[2], shape[1]).astype(images.dtype)
    # Without BLAS, whose last digits depend on the number of threads: a run may be resumed with another number of them.
    return np.einsum("jw,niwc->nijc", columns, np.einsum("ih,nhwc->niwc", rows, images))


def centre(height: int, width: int) -> tuple[slice, slice]:
    """Rows and columns of the largest square in the middle."""
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return slice(top, top + side), slice(left, left + side)


def averaged_square(pixels: Float[np.ndarray, "height width channels"], side: int) -> Float[np.ndarray, "side side c"]:
    """The largest square in the middle, averaged down by sparse `area_weights`: large photographs in milliseconds."""
    square = np.ascontiguousarray(pixels[centre(*pixels.shape[:2])])
    if len(square) == side:
        return square
    weights = scipy.sparse.csr_array(area_weights(len(square), side).astype(square.dtype))
    down = (weights @ square.reshape(len(square), -1)).reshape(side, *square.shape[1:])
    across = weights @ np.ascontiguousarray(down.swapaxes(0, 1)).reshape(len(square), -1)
    return np.ascontiguousarray(across.reshape(side, side, -1).swapaxes(0, 1))


def grey(images: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width 1"]:
    """Luminance of RGB images (ITU-R BT.601 weights); single-channel images are returned unchanged."""
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ShapeError("images", images.shape, "(N, H, W, 1) or (N, H, W, 3)", verb="have shape")
    if images.shape[-1] == 1:
        return images
    return (images @ _LUMA.astype(images.dtype))[..., None]


def conform(
    images: Float[np.ndarray, "n height width channels"], shape: tuple[int, int, int]
) -> Float[np.ndarray, "n new_height new_width new_channels"]:
    """Images of another set brought to (H, W, C): made grey where C = 1, repeated where C = 3, then resized."""
    if shape[2] not in (1, 3):
        raise InvalidArgumentError("shape", shape, "1 or 3 channels", verb="was")
    if shape[2] == 1:
        images = grey(images)
    elif images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    return resize(images, shape[:2])


def is_image_name(path: Path) -> bool:
    """Whether a file name has an image's suffix and is not hidden."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_image(path: Path, of: Callable[[Image], Read]) -> Read:
    """`of` Pillow's image in the file `path`.

    Raises InvalidArgumentError, which names the file, if it is not a PNG, JPEG, TIFF or BMP, is damaged, claims more
    pixels than the file or memory could hold, or is a TIFF of several frames.
    """
    import PIL.Image  # of which nothing is needed where no image is read

    if not path.is_file():
        raise InvalidArgumentError(f"{path} is not a readable image: there is no such file")
    try:
        with PIL.Image.open(path, formats=_FORMATS) as image:
            width, height = image.size
            claimed = width * height * len(image.getbands())
            held = path.stat().st_size
            if image.format == "PNG" and claimed > 8 * _DEFLATED * held:  # of one bit each
                raise ValueError(f"it claims {width}×{height} pixels and holds {held:,} bytes")
            check_fits(f"image {path} of {width}×{height} pixels", claimed * _HELD, "give a smaller image")
            if image.format == "TIFF" and getattr(image, "n_frames", 1) > 1:
                raise ValueError("it holds several frames; save each as a file of its own")
            return of(image)
    except InvalidArgumentError:
        raise
    except (*UNREADABLE, PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        raise InvalidArgumentError(f"{path} is not a readable image: {reason}") from None


def kind_of(image: Image) -> tuple[int, str]:
    """(channels, unit): 1 or 3; "8 bits" and "16 bits" become [0, 1], "its own" numbers are unchanged."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        return 1, "16 bits"
    if image.mode in ("I", "F"):
        return 1, "its own"
    return (1 if image.mode in _GREY else 3), "8 bits"


def pixels_of(image: Image) -> Float[np.ndarray, "height width channels"]:
    """The pixels as float32, in [0, 1] unless the file holds other numbers; transparency is dropped."""
    channels, unit = kind_of(image)
    if unit == "8 bits":
        values = np.asarray(image.convert("L" if channels == 1 else "RGB"), np.float32) / np.float32(255)
    else:
        values = np.asarray(image).astype(np.float32) / np.float32(65535 if unit == "16 bits" else 1)
        if not np.isfinite(values).all():
            raise ValueError("it holds NaN or infinite values")
    return values[..., None] if channels == 1 else values


def coloured(pixels: Float[np.ndarray, "height width channels"]) -> Float[np.ndarray, "height width 3"]:
    """Grey pixels in three equal channels; other pixels unchanged."""
    return np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
