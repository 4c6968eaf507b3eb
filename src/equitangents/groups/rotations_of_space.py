"""Angles, axes, draws and one-parameter subgroups of the rotations of space, by SciPy's `Rotation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element

AXES = ("turn about x", "turn about y", "turn about z")

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation


def random_rotations(count: int, rng: np.random.Generator) -> Float[np.ndarray, "count 3 3"]:
    """`count` rotations by the Haar measure, from uniform unit quaternions (Shoemake 1992).

    Written out, so that a seed gives the same rotations to the last bit whatever the version of SciPy.
    """
    q = rng.normal(size=(count, 4))
    a, b, c, d = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    return np.array(
        [
            [1 - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), 1 - 2 * (b * b + d * d), 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b * b + c * c)],
        ]
    ).transpose(2, 0, 1)


def turn_about(axis: int, radians: float) -> Float[np.ndarray, "3 3"]:
    """The rotation about a coordinate axis."""
    return _scipy().from_rotvec(radians * np.eye(3)[axis]).as_matrix()


def rotation_angle(g: Element) -> float | None:
    """Rotation angle in degrees of an orthogonal matrix of determinant 1, 0 to 180 in space, −180 to 180 in the plane.

    None for reflections.
    """
    if np.linalg.det(g) < 0:
        return None
    if len(g) == 2:
        return float(np.degrees(np.arctan2(g[1, 0], g[0, 0])))
    return float(np.degrees(_scipy().from_matrix(g).magnitude()))


def rotation_axis(g: Element) -> Float[np.ndarray, 3]:
    """Unit vector of the axis of a rotation, which is counter-clockwise about it; x for the identity."""
    vector = _scipy().from_matrix(g).as_rotvec()
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else np.array([1.0, 0.0, 0.0])


def rotation_label(g: Element) -> str:
    """Text of a rotation: degrees and axis."""
    axis = rotation_axis(g)
    return f"{rotation_angle(g):.1f}° about ({axis[0]:.2f}, {axis[1]:.2f}, {axis[2]:.2f})"


def angles_of(g: Float[np.ndarray, "*batch 3 3"]) -> Float[np.ndarray, "*batch"]:
    """Rotation angles in radians, 0 to π."""
    return _scipy().from_matrix(np.reshape(g, (-1, 3, 3))).magnitude().reshape(np.shape(g)[:-2])


def _scipy() -> type[Rotation]:
    """SciPy's class of rotations, loaded when the first is turned: groups load fast and need NumPy alone."""
    from scipy.spatial import transform

    return transform.Rotation
