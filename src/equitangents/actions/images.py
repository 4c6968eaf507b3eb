"""Exact motions of square images about their centre: quarter and half turns, reflections."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.action import PositionAction
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import Group, cyclic, dihedral


@final
class ImageTurns(PositionAction):
    """Rotations by multiples of 360°/n, n in {1, 2, 4}, and reflections, of images (N, H, W, C)."""

    positions_rank = 2
    turns: int

    def __init__(self, group: Group, turns: int, name: str):
        vars(self).update(group=group, turns=turns, name=name)

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees; None for reflections."""
        return None if g >= self.turns else 360.0 * g / self.turns

    def _move(self, g: int, grid: np.ndarray) -> np.ndarray:
        """ρ(g) of an array (H, W): g = f·n + k reflects (i, j) → (i, W − 1 − j) f times, then turns k times."""
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

    def _key(self) -> tuple[Any, ...]:
        return (self.turns,)


def image_dihedral(n: int) -> ImageTurns:
    """The dihedral group D_n, n in {1, 2, 4}, on images (N, H, W, C) about their centre, exactly.

    Element f·n + k reflects left and right f times, (i, j) → (i, W − 1 − j), then turns counter-clockwise by
    k·360°/n. Quarter turns (n = 4) need square images.
    """
    if n not in (1, 2, 4):
        raise InvalidArgumentError("n", n, "1, 2 or 4 (other turns do not map pixels to pixels)")
    return ImageTurns(dihedral(int(n)), int(n), f"turns by {360 // n}° and reflections of images")


def exact_rotations(n: int) -> ImageTurns:
    """Rotations by multiples of 360°/n, n in {1, 2, 4}."""
    return ImageTurns(cyclic(n), n, f"turns by {360 // n}° of images")


def check_square(name: str, positions: tuple[int, ...], turns: int) -> None:
    """Raise ShapeError for a non-square image unless rotations are by multiples of 180°."""
    if turns not in (1, 2) and positions[0] != positions[1]:
        raise ShapeError(name, positions, "square images", verb="has images of shape")


def disc(positions: tuple[int, ...]) -> np.ndarray:
    """Mask of the pixels in the inscribed disc about the image's centre."""
    H, W = positions
    i, j = np.indices((H, W))
    return (2 * i - H + 1) ** 2 + (2 * j - W + 1) ** 2 <= (min(H, W) - 1) ** 2
