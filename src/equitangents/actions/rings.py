"""Rotations of the plane on signals sampled along rings, or expressed in circular harmonics: exact for every angle.

A ring f(φ) with an odd number A of samples is Σ_m c_m e^{imφ}, |m| ≤ (A − 1)/2. Rotation by α multiplies c_m by
e^{−imα}, (ρ(α) f)(φ) = f(φ − α): an orthogonal representation of SO(2), computed by FFT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.actions.action import Action
from equitangents.actions.splines import point_taps, read_taps, spline_coefficients
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import cyclic
from equitangents.validation import check_array, check_whole

_AXIS = 2  # of the angles


@final
class RingRotations(Action):
    """C_n on signals (N, rings, angles, C); made by `ring_rotations`."""

    def __init__(self, n: int):
        vars(self).update(group=cyclic(n), name=f"rotations by {360 / n:g}° of rings")

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        x = check_array("x", x, rank=4)
        angles, n = x.shape[_AXIS], self.group.order
        if angles % 2 == 0 and angles % n:
            raise ShapeError(
                "x",
                x.shape,
                "an odd number of angles, or a multiple of the rotations",
                "others do not fix how images rotate",
            )
        return x

    def is_isometry(self, g: int, shape: Sequence[int]) -> bool:
        """True: every frequency is multiplied by a phase."""
        return True

    def moves(self, g: int, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """Return the shift along the rings if g is a whole number of steps; None otherwise (values are mixed)."""
        index = np.arange(int(np.prod(shape[:-1]))).reshape(shape[:-1])
        steps, rest = divmod(g * shape[_AXIS - 1], self.group.order)
        return None if rest else (np.roll(index, -steps, axis=_AXIS - 1).ravel(), True)

    def _act(self, g: int, x: ArrayLike) -> ArrayLike:
        return self._orbit(np.array([g]), x)[0]

    def _orbit(self, elements: np.ndarray, x: ArrayLike) -> ArrayLike:
        return rotate_rings(x, 2 * np.pi * elements / self.group.order)


def ring_rotations(n: int) -> RingRotations:
    """C_n on signals on rings (N, rings, angles, C): element g rotates counter-clockwise by g·360°/n.

    Exact for every n if the number of angles is odd (or a multiple of n), by trigonometric interpolation, so that C_n
    can be any finite subgroup of SO(2). `to_rings` samples images this way.

    >>> x = np.arange(1.0, 6.0).reshape(1, 1, 5, 1)
    >>> ring_rotations(5)(1, x)[0, 0, :, 0].round(12).tolist()
    [5.0, 1.0, 2.0, 3.0, 4.0]
    """
    return RingRotations(check_whole("n", n, 1))


def rotate_rings(x: ArrayLike, angles: Float[np.ndarray, " rotations"]) -> ArrayLike:
    """Rings (N, rings, angles, C) rotated by each of `angles` in radians: (angles, N, rings, angles, C)."""
    x = check_array("x", x, rank=4)
    steps = np.asarray(angles, np.float64)
    if steps.ndim != 1:
        raise ShapeError("angles", steps.shape, "a list of angles")
    xp = np if isinstance(x, np.ndarray) else jnp
    steps = xp.asarray(steps, x.dtype)[:, None, None, None, None]
    modes = xp.arange(x.shape[_AXIS] // 2 + 1, dtype=x.dtype)[:, None]
    turned = xp.fft.rfft(x, axis=_AXIS) * xp.exp(-1j * modes * steps)
    return xp.fft.irfft(turned, n=x.shape[_AXIS], axis=_AXIS + 1).astype(x.dtype)


def to_rings(
    images: Float[np.ndarray, "n height width channels"], rings: int, angles: int, order: int = 3
) -> Float[np.ndarray, "n rings angles channels"]:
    """Values of images along circles about their centre, from a B-spline of `order` through the pixels.

    Ring k has the radius (k + 1/2)/rings times half the image's smaller side (from pixel centre to pixel centre). Angle
    0 points down the rows and angles run counter-clockwise, so that `ring_rotations` and `image_rotations` rotate
    in the same sense.
    """
    images = check_array("images", np.asarray(images), rank=4)
    rings, angles = check_whole("rings", rings, 1), check_whole("angles", angles, 1)
    if isinstance(order, bool) or order not in range(6):
        raise InvalidArgumentError("order", order, "a spline order from 0 to 5")
    H, W = images.shape[1:3]
    radius = (np.arange(rings) + 0.5) / rings * (min(H, W) - 1) / 2
    phi = 2 * np.pi * np.arange(angles) / angles
    i = ((H - 1) / 2 + radius[:, None] * np.cos(phi)).ravel()
    j = ((W - 1) / 2 + radius[:, None] * np.sin(phi)).ravel()
    y = read_taps(spline_coefficients(images, order), *point_taps(order, i, j, (H, W)))
    return np.asarray(y).reshape(len(images), rings, angles, -1)
