"""Boxes and keypoints that a model finds in images: how their coordinates are meant, and so how they move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

import numpy as np

from equitangents.actions.image_coordinates import ImageBoxes, ImagePoints
from equitangents.actions.kinds import Kinds
from equitangents.audit.contract.leaf_actions import Kind, LeafAction, Place
from equitangents.errors import InvalidArgumentError, InvalidTypeError

BoxFormat = Literal["xyxy", "cxcywh"]
Pixels = Literal["edges", "centres"]


class InImages(Kind):
    """What lies in images by coordinates, of a `size`, `normalized` or in pixels."""

    def __init__(self, size: tuple[int, int] | None, normalized: bool, pixels: Pixels) -> None:
        if pixels not in ("edges", "centres"):
            error = InvalidArgumentError if isinstance(pixels, str) else InvalidTypeError
            raise error(f"pixels is {pixels!r}; expected 'edges' or 'centres'")
        self.size, self.normalized, self.pixels = size, normalized, pixels

    def _turning(self, place: Place, what: str) -> tuple[Kinds, tuple[float, float]]:
        """(the group that turns images of this grid, (x, y) of their centre)."""
        kinds, size = place.kinds, self.size or place.grid
        if kinds is None or kinds.space != "plane":
            group = "the group" if kinds is None else kinds.group.name
            raise InvalidArgumentError(f"{what} in images move by C4, D4, SO2, …; {group} turns no images")
        if self.normalized:
            return kinds, (0.5, 0.5)
        if size is None or len(size) != 2:
            raise InvalidArgumentError("size is None and no input is an image; give the images' size=(H, W)")
        less = 1 if self.pixels == "centres" else 0
        return kinds, ((size[1] - less) / 2, (size[0] - less) / 2)


@final
class Boxes(InImages):
    """Boxes in images (N, …, 4), for `output_action` or `inputs` of an audit; what follows the four numbers stays.

    Args:
        format: "xyxy", two corners, or "cxcywh", centre and sides; x to the right, y down, in pixels.
        size: (H, W) of the images; None: that of the images that the model reads.
        normalized: whether coordinates reach from 0 to 1.
        pixels: what whole numbers are, the "edges" of pixels (an image of W pixels reaches from 0 to W) or their
            "centres" (from 0 to W − 1).

    Rows of zeros are no boxes and stay. Boxes turn by quarters alone: those of finer turns are not boxes.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(10, 6, 6, 1))
    >>> brightest = lambda x: np.abs(x).max((1, 2))  # (10, 1)
    >>> around = lambda x: 3 + brightest(x) * [-1, -1, 1, 1]  # about the centre of the image
    >>> et.audit(around, "C4", x, et.audit.Boxes("xyxy"), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        format: BoxFormat = "xyxy",
        *,
        size: tuple[int, int] | None = None,
        normalized: bool = False,
        pixels: Pixels = "edges",
    ) -> None:
        if format not in ("xyxy", "cxcywh"):
            raise InvalidArgumentError("format", format, "'xyxy' or 'cxcywh'")
        super().__init__(size, normalized, pixels)
        self.format = format

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action on such boxes, of images of this grid."""
        turning, centre = self._turning(place, "boxes")
        return LeafAction(ImageBoxes(turning.group, turning.motion, centre, self.format == "cxcywh"))

    def __repr__(self) -> str:
        return f"equitangents.audit.Boxes({self.format!r})"


@final
class Keypoints(InImages):
    """Points in images (N, …, 2), x to the right and y down, for `output_action` or `inputs` of an audit.

    Args:
        size: (H, W) of the images; None: that of the images that the model reads.
        normalized: whether coordinates reach from 0 to 1.
        pixels: what whole numbers are, the "centres" of pixels (an image of W pixels reaches from 0 to W − 1), or their
            "edges" (from 0 to W).
        swapped: which point every point becomes under a reflection, as left and right hands do; [1, 0, 2].

    Further columns, such as a visibility, stay.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).random(size=(10, 6, 6, 1))
    >>> def brightest(x):
    ...     i, j = np.divmod(x.reshape(len(x), -1).argmax(1), 6)
    ...     return np.stack([j, i], axis=1)
    >>> et.audit(brightest, "D4", x, et.audit.Keypoints(), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        *,
        size: tuple[int, int] | None = None,
        normalized: bool = False,
        pixels: Pixels = "centres",
        swapped: Sequence[int] | None = None,
    ) -> None:
        super().__init__(size, normalized, pixels)
        self.swapped = None if swapped is None else np.asarray(swapped)
        if self.swapped is not None:
            places = np.arange(self.swapped.size)
            if self.swapped.dtype.kind not in "iu" or not np.array_equal(np.sort(self.swapped.ravel()), places):
                raise InvalidArgumentError("swapped", swapped, "every point once, such as [1, 0, 2]")
            if not np.array_equal(self.swapped[self.swapped], places):
                raise InvalidArgumentError(
                    "swapped", swapped, remedy="done twice it must leave every point where it was"
                )

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action on such points, of images of this grid."""
        turning, centre = self._turning(place, "keypoints")
        return LeafAction(ImagePoints(turning.group, turning.motion, centre, self.swapped))

    def __repr__(self) -> str:
        return "equitangents.audit.Keypoints()"
