"""Motions of images about their centre: quarter and half turns and reflections exactly, other rotations by splines.

(ρ(g) f)(p) = f(g⁻¹ p); pixels that come from outside the image are zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, final

import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.action import Action, GroupAction, PositionAction, image_hint
from equitangents.actions.splines import Outside, disc, read_taps, rotated_images, rotated_taps, spline_coefficients
from equitangents.actions.unchecked import Motion, UncheckedAction
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import Group, SymmetryGroup, cyclic, dihedral
from equitangents.validation import check_array, check_whole

Mask = Literal["circle"] | None


@final
class ExactRotations(PositionAction):
    """Rotations by multiples of 360°/n, n in {1, 2, 4}, and reflections, of images (N, H, W, C), without resampling."""

    positions_rank = 2
    turns: int

    def __init__(self, group: Group, turns: int, name: str):
        vars(self).update(group=group, turns=turns, name=name)

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees; None for reflections."""
        return None if g >= self.turns else 360.0 * g / self.turns

    def _move(self, g: int, grid: np.ndarray) -> np.ndarray:
        """ρ(g) of an array (H, W): g = f·n + k reflects (i, j) → (i, W − 1 − j) f times, then rotates k times."""
        f, k = divmod(g, self.turns)
        return np.rot90(grid[:, ::-1] if f else grid, k * (4 // self.turns))

    def _position_rows(self, g: Element, positions: tuple[int, ...]) -> np.ndarray:
        index = np.arange(positions[0] * positions[1]).reshape(positions)
        # position p of ρ(g⁻¹) index holds the label of the position g p
        inverse = np.atleast_1d(self.group.inverse(g))
        rows = np.stack([self._move(int(h), index).ravel() for h in inverse]).astype(np.int32)
        return rows[0] if np.ndim(g) == 0 else rows

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        # the same map as reading from the table, without its gather
        f, k = divmod(g, self.turns)
        y = x[:, :, ::-1] if f else x
        k = k * (4 // self.turns)
        return np.rot90(y, k, axes=(1, 2)) if isinstance(x, np.ndarray) else jnp.rot90(y, k, axes=(1, 2))

    def _orbit(self, elements: np.ndarray, x: ArrayLike) -> ArrayLike:
        images = [self._act(int(g), x) for g in elements]
        return np.stack(images) if isinstance(x, np.ndarray) else jnp.stack(images)

    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        check_square(name, positions, self.turns)


def image_dihedral(n: int, order: int = 3, mask: Mask = None) -> ExactRotations | ResampledRotations:
    """The dihedral group D_n on images (N, H, W, C) about their centre, exactly for n in {1, 2, 4}.

    Element f·n + k reflects left and right f times, (i, j) → (i, W − 1 − j), then rotates counter-clockwise by
    k·360°/n. For other n, and with a mask, images are interpolated by a spline of `order` as in `image_rotations`.
    Images must be square unless n is 1 or 2.
    """
    n, order = _checked(n, order, mask)
    if n in (1, 2, 4) and mask is None:
        return ExactRotations(dihedral(n), n, f"rotations by {360 // n}° and reflections of images")
    return ResampledRotations(dihedral(n), n, order, mask)


def check_square(name: str, positions: tuple[int, ...], turns: int) -> None:
    """Raise ShapeError for a non-square image unless rotations are by multiples of 180°."""
    if turns not in (1, 2) and positions[0] != positions[1]:
        raise ShapeError(name, positions, "square images", verb="has images of shape")


@final
class ImageMotions(UncheckedAction):
    """SO(2), C_n or D_n on images (N, H, W, C) in NumPy: quarter turns move pixels, others use a spline of `order`."""

    exact = False
    linear = True
    channels_last = True
    needs_floats = True
    motion: Motion
    order: int
    what: str
    outside: Outside

    def __init__(
        self,
        group: SymmetryGroup,
        motion: Motion,
        order: int = 3,
        mask: str | None = None,
        what: str = "rotations of images",
        outside: Outside = "zero",
    ):
        name = f"{what}, splines of order {order}" + ("" if mask is None else f", {mask} mask")
        vars(self).update(
            group=group, motion=motion, order=order, mask=mask, what=what, outside=outside, name=name,
        )  # fmt: skip

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError unless x holds images, which must be square if rotations require it."""
        if x.ndim != 4:
            raise ShapeError(name, x.shape, remedy="rotations of images need (N, H, W, C) or (N, C, H, W)")
        H, W = x.shape[1:3]
        if H != W:
            raise ShapeError(name, x.shape, "square images")

    def __call__(self, g: Element, x: np.ndarray) -> np.ndarray:
        """ρ(g) x."""
        return next(self.one_by_one([g], x))

    def one_by_one(self, elements: Sequence[Element], x: np.ndarray) -> Iterator[np.ndarray]:
        """Yield ρ(g) x for each element; the spline's coefficients are computed once."""
        motions = [self.motion(g) for g in elements]
        yield from rotated_images(x, motions, self.order, self.mask, self.outside)

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees; None for reflections."""
        degrees, reflected = self.motion(g)
        return None if reflected else degrees

    def moves_exactly(self, g: Element) -> bool:
        """Whether g takes pixels to pixels: a multiple of 90°."""
        return self.mask is None and self.motion(g)[0] % 90 == 0

    def more_accurate(self) -> ImageMotions | None:
        """The same motions with splines of order 5; None if these are used already."""
        return None if self.order == 5 else ImageMotions(self.group, self.motion, 5, self.mask, self.what, self.outside)

    def restricted(self, group: SymmetryGroup, elements: np.ndarray) -> ImageMotions:
        """The action of a subgroup, whose element i moves images as elements[i] does."""
        motion = lambda i: self.motion(elements[i])
        return ImageMotions(group, motion, self.order, self.mask, self.what, self.outside)


@final
class ResampledRotations(Action):
    """Rotations by multiples of 360°/n, and reflections, of images (N, H, W, C) interpolated by a spline.

    Multiples of 90° move pixels to pixels and are not interpolated. Pixels that come from outside the image are zero.
    """

    exact = False
    linear = True
    channels_last = True
    turns: int
    order: int

    def __init__(self, group: Group, turns: int, order: int, mask: str | None):
        what = f"rotations by {360 / turns:g}°" + (" and reflections" if group.order > turns else "")
        masked = "" if mask is None else f", {mask} mask"
        name = f"{what} of images, splines of order {order}{masked}"
        vars(self).update(group=group, turns=turns, order=order, mask=mask, name=name)

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        x = check_array("x", x, rank=4)
        try:
            check_square("x", x.shape[1:-1], self.turns)
        except ShapeError as error:
            raise ShapeError(f"{error}{image_hint('x', x.shape)}") from None
        return x

    def angle(self, g: Element) -> float | None:
        """Rotation angle of element g in degrees, counter-clockwise; None for reflections."""
        return None if g >= self.turns else 360.0 * g / self.turns

    def moves_exactly(self, g: Element) -> bool:
        """Whether g takes pixels to pixels: a multiple of 90°."""
        return self.mask is None and not self._interpolates(g)

    def in_numpy(self) -> ImageMotions:
        """These rotations in NumPy, with one sparse matrix per angle."""
        n = self.turns
        motion = lambda g: (360.0 * (g % n) / n, g >= n)
        return ImageMotions(self.group, motion, self.order, self.mask, self.name.split(",")[0])

    def more_accurate(self) -> ResampledRotations | None:
        """The same rotations with splines of order 5; None if these are used already."""
        return None if self.order == 5 else ResampledRotations(self.group, self.turns, 5, self.mask)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return self._rotated(g, x, spline_coefficients(x, self.order) if self._interpolates(g) else None)

    def _orbit(self, elements: np.ndarray, x: ArrayLike) -> ArrayLike:
        c = spline_coefficients(x, self.order) if any(self._interpolates(int(g)) for g in elements) else None
        images = [self._rotated(int(g), x, c) for g in elements]
        return np.stack(images) if isinstance(x, np.ndarray) else jnp.stack(images)

    def _interpolates(self, g: int) -> bool:
        return (4 * (g % self.turns)) % self.turns != 0

    def _rotated(self, g: int, x: ArrayLike, c: ArrayLike | None) -> ArrayLike:
        xp = np if isinstance(x, np.ndarray) else jnp
        f, k = divmod(g, self.turns)
        x = x[:, :, ::-1] if f else x
        if self._interpolates(g):
            index, weights = _reading(self.turns, k, self.order, x.shape[1:3])
            assert c is not None
            y = read_taps(c[:, :, ::-1] if f else c, index, weights).reshape(x.shape)
        else:
            y = xp.rot90(x, 4 * k // self.turns, axes=(1, 2))
        return y if self.mask is None else y * xp.asarray(disc(x.shape[1:3])[..., None], x.dtype)


def image_rotations(n: int, order: int = 3, mask: Mask = None) -> ExactRotations | ResampledRotations:
    """C_n on images (N, H, W, C): element g rotates counter-clockwise by g·360°/n about the image's centre.

    For n in {1, 2, 4} the action is exact: np.rot90(x, g, axes=(1, 2)) for n = 4. For other n, images are interpolated
    by a B-spline of `order` 0 to 5 through the pixels (as scipy.ndimage with mode "constant"): `.exact` is False, and
    `.resampling_error(x)` measures the loss of rotating forth and back.
    mask="circle" sets everything outside the inscribed disc to zero, for g = 0 too, so that all elements show the
    same pixels; `.exact` is then False for every n, since the identity cuts the corners.

    Images must be square unless n is 1 or 2.

    >>> x = np.arange(4.0).reshape(1, 2, 2, 1)
    >>> image_rotations(4)(1, x)[0, :, :, 0]
    array([[1., 3.],
           [0., 2.]])
    """
    n, order = _checked(n, order, mask)
    if n in (1, 2, 4) and mask is None:
        return ExactRotations(cyclic(n), n, f"rotations by {360 // n}° of images")
    return ResampledRotations(cyclic(n), n, order, mask)


def _checked(n: int, order: int, mask: str | None) -> tuple[int, int]:
    n = check_whole("n", n, 1)
    if isinstance(order, bool) or order not in range(6):
        raise InvalidArgumentError("order", order, "a spline order from 0 to 5")
    if mask not in (None, "circle"):
        raise InvalidArgumentError("mask", mask, "None or 'circle'")
    return n, int(order)


@lru_cache(maxsize=256)
def _reading(n: int, g: int, order: int, positions: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Flat indices and weights (taps, pixels) of the spline coefficients for the image rotated by g·360°/n."""
    return rotated_taps(2 * np.pi * g / n, order, positions)


@final
class ImageStacks(UncheckedAction):
    """The action of `images` on every grey image (N, H, W), or on every frame of (N, T, H, W, C)."""

    images: GroupAction
    grey: bool

    def __init__(self, images: GroupAction, grey: bool):
        what = "grey images" if grey else "frames of images"
        vars(self).update(
            group=images.group, images=images.in_numpy(), grey=grey, name=f"{images.name}, {what}", exact=images.exact,
            channels_last=not grey, needs_floats=images.needs_floats, mask=images.mask,
        )  # fmt: skip

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError unless x holds grey images or frames."""
        if x.ndim != (3 if self.grey else 5):
            raise ShapeError(name, x.shape, _SHAPES[self.grey])
        self.images.check_signals(name, self._flat(x))

    def __call__(self, g: Element, x: np.ndarray) -> np.ndarray:
        """ρ(g) of every image."""
        return np.asarray(self.images(g, self._flat(x))).reshape(x.shape)

    def one_by_one(self, elements: Sequence[Element], x: np.ndarray) -> Iterator[np.ndarray]:
        """Yield ρ(g) x for each element."""
        for moved in self.images.one_by_one(elements, self._flat(x)):
            yield np.asarray(moved).reshape(x.shape)

    def angle(self, g: Element) -> float | None:
        """Rotation angle of g in degrees; None for reflections."""
        return self.images.angle(g)

    def moves_exactly(self, g: Element) -> bool:
        """Whether ρ(g) takes pixels of the images to pixels."""
        return self.images.moves_exactly(g)

    def more_accurate(self) -> ImageStacks | None:
        """The same action with a more accurate interpolation; None if there is none."""
        better = self.images.more_accurate()
        return None if better is None else ImageStacks(better, self.grey)

    def _flat(self, x: np.ndarray) -> np.ndarray:
        """All images in one batch, (N or N·T, H, W, C)."""
        return x[..., None] if self.grey else x.reshape(-1, *x.shape[2:])


_SHAPES = {True: "(N, H, W)", False: "(N, T, H, W, C) or (N, C, T, H, W)"}
