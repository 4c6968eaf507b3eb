"""One image file: opened as one of four formats alone, and what its header claims held against memory first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.extending import UNREADABLE, check_fits

SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp")
_FORMATS = ("TIFF", "PNG", "JPEG", "BMP")  # Pillow knows more, some of which run other programs
_DEFLATED = 1100  # times: zeros shrink by 1,032 at most
_HELD = 8  # bytes of each number of an image while it is read: as it is decoded, and in float32
_GREY = ("1", "L", "LA", "La")

Read = TypeVar("Read")


def is_image_name(path: Path) -> bool:
    """Whether a name ends as those of images do; hidden files are none."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_image(path: Path, of: Callable[[Any], Read]) -> Read:
    """`of` Pillow's image in the file `path`.

    Raises InvalidArgumentError, which names the file, for what is no PNG, JPEG, TIFF or BMP, is damaged, claims more
    pixels than the file or memory could hold, or is a TIFF of several frames.
    """
    from PIL import Image  # of which nothing is needed where no image is read

    if not path.is_file():
        raise InvalidArgumentError(f"{path} is not a readable image: there is no such file")
    try:
        with Image.open(path, formats=_FORMATS) as image:
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
    except (*UNREADABLE, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        raise InvalidArgumentError(f"{path} is not a readable image: {reason}") from None


def kind_of(image: Any) -> tuple[int, str]:
    """(channels, unit): 1 or 3; "8 bits" and "16 bits" become [0, 1], "its own" numbers stay as they are."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        return 1, "16 bits"
    if image.mode in ("I", "F"):
        return 1, "its own"
    return (1 if image.mode in _GREY else 3), "8 bits"


def pixels_of(image: Any) -> Float[np.ndarray, "height width channels"]:
    """The pixels as float32, in [0, 1] unless the file holds numbers of its own; transparency is left out."""
    channels, unit = kind_of(image)
    if unit == "8 bits":
        values = np.asarray(image.convert("L" if channels == 1 else "RGB"), np.float32) / np.float32(255)
    else:
        values = np.asarray(image).astype(np.float32) / np.float32(65535 if unit == "16 bits" else 1)
        if not np.isfinite(values).all():
            raise ValueError("it holds NaN or infinite values")
    return values[..., None] if channels == 1 else values


def coloured(pixels: Float[np.ndarray, "height width channels"]) -> Float[np.ndarray, "height width 3"]:
    """Grey pixels in three equal channels; others as they are."""
    return np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
