"""Coordinates in images, in pixels: x to the right, y down; they move with the pixels.

`size` = (H, W). Whole numbers are either the pixels' edges, so that an image reaches from 0 to W, or their centres, so
that it reaches from 0 to W − 1. Normalised coordinates reach from 0 to 1 between the edges.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.actions.group_action import GroupAction
from equitangents.actions.image_motions import Motion
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import SymmetryGroup

Size = tuple[float, float]


def screen_matrix(degrees: float, reflected: bool) -> Float[np.ndarray, "2 2"]:
    """Matrix of a motion of images on (x to the right, y down): reflection first, then counter-clockwise rotation."""
    quarter = {0: (1.0, 0.0), 1: (0.0, 1.0), 2: (-1.0, 0.0), 3: (0.0, -1.0)}
    exact = quarter.get(round(degrees / 90) % 4) if degrees % 90 == 0 else None
    c, s = exact or (float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees))))
    turn = np.array([[c, s], [-s, c]])
    return turn @ np.diag([-1.0, 1.0]) if reflected else turn


@final
class ImagePoints(GivenMap):
    """Points (N, …, 2 or more): x and y first, what follows stays; `swapped` points change places under reflections."""

    needs_floats = True
    motion: Motion
    centre: tuple[float, float]
    swapped: Int[np.ndarray, " K"] | None

    def __init__(
        self,
        group: SymmetryGroup,
        motion: Motion,
        centre: tuple[float, float],
        swapped: np.ndarray | None = None,
        name: str = "keypoints of images",
    ):
        vars(self).update(group=group, motion=motion, centre=centre, swapped=swapped, name=name)

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """The last axis begins with x and y."""
        if x.ndim < 2 or x.shape[-1] < 2:
            raise ShapeError(name, x.shape, "x, y along the last axis")
        if self.swapped is not None and (x.ndim < 3 or x.shape[-2] != len(self.swapped)):
            raise ShapeError(name, x.shape, (..., len(self.swapped), 2), "swapped names points")

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """M (x − c) + c of x and y."""
        degrees, reflected = self.motion(g)
        M, c = screen_matrix(degrees, reflected), np.asarray(self.centre)
        y = np.array(x, np.result_type(x, np.float32) if x.dtype.kind != "f" else x.dtype)
        y[..., :2] = (x[..., :2] - c) @ M.T + c
        return y[..., self.swapped, :] if reflected and self.swapped is not None else y

    def _key(self) -> tuple[Any, ...]:
        return (self.motion, self.centre, None if self.swapped is None else self.swapped.tobytes())


@final
class ImageBoxes(GivenMap):
    """Boxes (N, …, 4 or more) with sides along the axes: x1, y1, x2, y2 or, `centred`, cx, cy, w, h; the rest stays."""

    needs_floats = True
    motion: Motion
    centre: tuple[float, float]
    centred: bool

    def __init__(self, group: SymmetryGroup, motion: Motion, centre: tuple[float, float], centred: bool):
        form = "cx, cy, w, h" if centred else "x1, y1, x2, y2"
        if group.elements is None or any(motion(g)[0] % 90 for g in group.elements):
            raise InvalidArgumentError(
                "group",
                group,
                "C2, C4, D1, D2 or D4, under which boxes stay boxes",
                "audit their centres as 'keypoints'",
            )
        vars(self).update(group=group, motion=motion, centre=centre, centred=centred, name=f"boxes ({form})")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """The last axis begins with the four numbers of a box."""
        if x.ndim < 2 or x.shape[-1] < 4:
            raise ShapeError(name, x.shape, "four numbers along the last axis")

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """Both corners moved and sorted, or the centre moved and the sides exchanged; rows of zeros stay."""
        M, c = screen_matrix(*self.motion(g)), np.asarray(self.centre)
        y = np.array(x)
        if self.centred:
            y[..., :2] = (x[..., :2] - c) @ M.T + c
            y[..., 2:4] = x[..., 2:4] @ np.abs(M).T
        else:
            first, second = ((x[..., a : a + 2] - c) @ M.T + c for a in (0, 2))
            y[..., :2], y[..., 2:4] = np.minimum(first, second), np.maximum(first, second)
        return np.where((x != 0).any(axis=-1, keepdims=True), y, x)

    def _key(self) -> tuple[Any, ...]:
        return (self.motion, self.centre, self.centred)


@final
class ClassMasks(GivenMap):
    """Class numbers of pixels, (N, H, W) or (N, H, W, 1): moved with images; resampled: the likeliest class."""

    images: GroupAction

    def __init__(self, group: SymmetryGroup, images: GroupAction):
        vars(self).update(group=group, images=images, exact=images.exact, name="masks of class numbers")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Whole numbers, one a pixel."""
        if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] != 1):
            raise ShapeError(name, x.shape, "masks (N, H, W)")
        if x.dtype.kind == "f" and not (x == np.round(x)).all():
            raise ShapeError(
                name, "other than whole numbers", "class numbers of masks", "soft masks are 'images'", verb="holds"
            )
        self.images.check_signals(name, np.asarray(x).reshape(*x.shape[:3], 1))

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """Pixels moved as they are; between pixels, the class whose interpolated mask is largest."""
        whole = np.ascontiguousarray(x.reshape(*x.shape[:3], 1))
        if self.images.moves_exactly(g):
            return np.asarray(self.images(g, whole)).reshape(x.shape).astype(x.dtype)
        classes = np.unique(whole)
        masks = np.asarray(self.images(g, (whole == classes).astype(np.float64)))
        background = 1 - masks.sum(axis=-1)  # what turns in from outside is class 0
        masks[..., 0] += background if classes[0] == 0 else 0.0
        return classes[masks.argmax(axis=-1)].reshape(x.shape).astype(x.dtype)

    def moves_exactly(self, g: Element) -> bool:
        """Whether pixels go to pixels."""
        return self.images.moves_exactly(g)

    def _key(self) -> tuple[Any, ...]:
        return (self.images,)
