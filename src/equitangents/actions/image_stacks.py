"""Images with fewer or more axes than (N, H, W, C): grey ones (N, H, W), and frames or slices (N, T, H, W, C)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from equitangents._types import Element
from equitangents.actions.given_maps import GivenMap
from equitangents.actions.group_action import GroupAction
from equitangents.errors import ShapeError


@final
class ImageStacks(GivenMap):
    """ρ(g) of `images` on every grey image (N, H, W), or on every frame of (N, T, H, W, C)."""

    images: GroupAction
    grey: bool

    def __init__(self, images: GroupAction, grey: bool):
        what = "grey images" if grey else "frames of images"
        vars(self).update(
            group=images.group, images=images.in_numpy(), grey=grey, name=f"{images.name}, {what}", exact=images.exact,
            channels_last=not grey, needs_floats=images.needs_floats, mask=images.mask,
        )  # fmt: skip

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError unless x holds such images."""
        if x.ndim != (3 if self.grey else 5):
            raise ShapeError(name, x.shape, _SHAPES[self.grey])
        self.images.check_signals(name, self._flat(x))

    def __call__(self, g: Element, x: np.ndarray) -> np.ndarray:
        """ρ(g) of every image."""
        return np.asarray(self.images(g, self._flat(x))).reshape(x.shape)

    def one_by_one(self, elements: Sequence[Element], x: np.ndarray) -> Iterator[np.ndarray]:
        """ρ(g) x for one element after another."""
        for moved in self.images.one_by_one(elements, self._flat(x)):
            yield np.asarray(moved).reshape(x.shape)

    def angle(self, g: Element) -> float | None:
        """Rotation angle of g in degrees; None for reflections."""
        return self.images.angle(g)

    def moves_exactly(self, g: Element) -> bool:
        """Whether ρ(g) takes pixels of the images to pixels."""
        return self.images.moves_exactly(g)

    def more_accurate(self) -> ImageStacks | None:
        """With a better interpolation of the images."""
        better = self.images.more_accurate()
        return None if better is None else ImageStacks(better, self.grey)

    def _flat(self, x: np.ndarray) -> np.ndarray:
        """All images (N or N·T, H, W, C)."""
        return x[..., None] if self.grey else x.reshape(-1, *x.shape[2:])

    def _key(self) -> tuple[Any, ...]:
        return (self.images, self.grey)


_SHAPES = {True: "(N, H, W)", False: "(N, T, H, W, C) or (N, C, T, H, W)"}
