"""Images of one's own with masks: FOLDER/images/NAME.png and FOLDER/masks/NAME.png, alike but for the ending."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_whole
from equitangents_studies.data.images import SUFFIXES, averaged_square, coloured, is_image_name, pixels_of, read_image

if TYPE_CHECKING:
    from PIL.Image import Image


@final
@dataclass(frozen=True, eq=False, repr=False)
class MaskedImages:
    """`images` (N, H, W, C), C = 1 or 3; `masks` (N, H, W, 1), the share of each pixel that is foreground.

    Images of 8 and 16 bits become [0, 1], as those of `load_labelled_images` do.
    """

    name: str
    images: Float[np.ndarray, "n height width channels"]
    masks: Float[np.ndarray, "n height width 1"]
    file_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        n, height, width, channels = self.images.shape
        return f"<{n:,} images of {height}×{width} pixels in {channels} channels with masks: {self.name}>"


def load_mask_folder(path: str | Path, pixels: int) -> MaskedImages:
    """The images in `path`/images, in the order of their names, with their masks in `path`/masks.

    Of each image and mask the largest centred square is averaged down to `pixels` × `pixels`. Any value but 0 of a mask
    is foreground. Images are grey if all files are, else RGB.

    Raises InvalidArgumentError for folders that are missing or empty, an image without a mask or the reverse, a mask of
    another size than its image, and a file that is no image.

    >>> load_mask_folder("there/is/none", 16)
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: data is 'there/is/none'; expected a folder with folders images and masks
    """
    folder, pixels = Path(path).expanduser(), check_whole("pixels", pixels, 1)
    if not folder.is_dir():
        raise InvalidArgumentError("data", str(folder), "a folder with folders images and masks")
    images, masks = (_files(folder, part) for part in ("images", "masks"))
    for name in sorted(images.keys() ^ masks.keys()):
        held, lacks = ("images", "masks") if name in images else ("masks", "images")
        raise InvalidArgumentError("data", str(folder), f"{lacks}/{name}, as there is {held}/{name}")
    x, y = [], []
    for name in sorted(images):
        image, mask = read_image(images[name], pixels_of), read_image(masks[name], _foreground)
        if image.shape[:2] != mask.shape[:2]:
            sizes = " and ".join(f"{a.shape[1]}×{a.shape[0]}" for a in (image, mask))
            raise InvalidArgumentError("data", str(folder), "images and masks of equal size", f"{name}: {sizes} pixels")
        x.append(_sized(image, pixels, images[name]))
        y.append(_sized(mask, pixels, masks[name]))
    if any(image.shape[-1] == 3 for image in x):
        x = [coloured(image) for image in x]
    return MaskedImages(folder.name, np.stack(x), np.stack(y), tuple(sorted(images)))


def _files(folder: Path, part: str) -> dict[str, Path]:
    """Image files by their names without ending."""
    place = folder / part
    if not place.is_dir():
        raise InvalidArgumentError("data", str(folder), "folders images and masks", str(part))
    found: dict[str, Path] = {}
    for file in sorted(place.iterdir()):
        if is_image_name(file):
            if file.stem in found:
                raise InvalidArgumentError(
                    "data", str(place), "one file of each name", f"{found[file.stem].name}, {file.name}"
                )
            found[file.stem] = file
    if not found:
        raise InvalidArgumentError("data", str(place), list(SUFFIXES), "images with such endings")
    return found


def _foreground(image: Image) -> np.ndarray:
    """(H, W, 1): 1 where any channel but transparency is not 0; of a palette, where its index is not 0."""
    values = np.asarray(image.convert("RGB") if image.mode in ("LA", "RGBA", "PA") else image)
    some: np.ndarray = (values != 0).any(axis=-1) if values.ndim == 3 else values != 0
    return some[..., None].astype(np.float32)


def _sized(image: np.ndarray, pixels: int, path: Path) -> np.ndarray:
    """The largest square in the middle, averaged down: (pixels, pixels, C)."""
    height, width = image.shape[:2]
    if min(height, width) < pixels:
        raise InvalidArgumentError("pixels", pixels, "at most the sides of the images", str(path))
    return averaged_square(image, pixels)
