"""Rotations by any angle, and reflections, of NumPy images, by one sparse matrix per angle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, final

import numpy as np

from equitangents._types import Element
from equitangents.actions.given_maps import GivenMap
from equitangents.actions.turning import Turner
from equitangents.errors import ShapeError
from equitangents.groups import SymmetryGroup

Motion = Callable[[Any], tuple[float, bool]]
"""Of an element: by how many degrees it turns, and whether it reflects left and right before."""


@final
class ImageMotions(GivenMap):
    """Images (N, H, W, C) under SO(2), C_n or D_n; quarter turns move pixels, others read a spline of `order`."""

    exact = False
    linear = True
    channels_last = True
    needs_floats = True
    motion: Motion
    order: int
    what: str

    def __init__(
        self,
        group: SymmetryGroup,
        motion: Motion,
        order: int = 3,
        mask: str | None = None,
        what: str = "turns of images",
        outside: Literal["zero", "edge"] = "zero",
    ):
        name = f"{what}, splines of order {order}" + ("" if mask is None else f", {mask} mask")
        vars(self).update(
            group=group, motion=motion, order=order, mask=mask, what=what, outside=outside, name=name,
            turner=Turner(order, mask, outside),
        )  # fmt: skip

    outside: str
    turner: Turner

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError unless x holds images, square ones where rotations need it."""
        if x.ndim != 4:
            raise ShapeError(name, x.shape, remedy="turns of images need (N, H, W, C) or (N, C, H, W)")
        H, W = x.shape[1:3]
        if H != W:
            raise ShapeError(name, x.shape, "square images")

    def __call__(self, g: Element, x: np.ndarray) -> np.ndarray:
        """ρ(g) x."""
        return next(self.one_by_one([g], x))

    def one_by_one(self, elements: Sequence[Element], x: np.ndarray) -> Iterator[np.ndarray]:
        """The spline's coefficients are found once for all elements."""
        yield from self.turner.orbit([self.motion(g) for g in elements], x)

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees; None for reflections."""
        degrees, reflected = self.motion(g)
        return None if reflected else degrees

    def moves_exactly(self, g: Element) -> bool:
        """True of quarter turns: they take pixels to pixels."""
        return self.mask is None and self.motion(g)[0] % 90 == 0

    def more_accurate(self) -> ImageMotions | None:
        """Splines of order 5."""
        return None if self.order == 5 else ImageMotions(self.group, self.motion, 5, self.mask)

    def _key(self) -> tuple[Any, ...]:
        return (self.motion, self.order, self.mask, self.outside)
