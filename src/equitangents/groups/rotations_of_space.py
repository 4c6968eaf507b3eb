"""Rotations: angles, axes and draws; irreps of SO(2), O(2), SO(3), O(3).

Irreps are over the real numbers, orthogonal. Plane, frequency m: R(mα) diag(1, det g) of g = R(α) diag(1, det g), on
(cos mφ, sin mφ). Space, degree l: D^l with Y_l(Rx) = D^l(R) Y_l(x), Y_l the real harmonics in the order m = −l .. l,
from the generators of rotations: D^l = e^{−iαJ_z} e^{−iβJ_y} e^{−iγJ_z} for R = R_z(α) R_y(β) R_z(γ), in the basis of
the real harmonics.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from equitangents._aliases import Element

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation


def random_rotations(count: int, rng: np.random.Generator) -> Float[np.ndarray, "count 3 3"]:
    """`count` rotations drawn from the Haar measure, by uniform unit quaternions (Shoemake 1992).

    Does not call SciPy, so that a seed gives the same rotations to the last bit with every version of SciPy.
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
    """Unit vector of a rotation's axis, about which it is counter-clockwise; the x axis for the identity."""
    vector = _scipy().from_matrix(g).as_rotvec()
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else np.array([1.0, 0.0, 0.0])


def rotation_label(g: Element) -> str:
    """A rotation as text: degrees and axis."""
    axis = rotation_axis(g)
    return f"{rotation_angle(g):.1f}° about ({axis[0]:.2f}, {axis[1]:.2f}, {axis[2]:.2f})"


def _scipy() -> type[Rotation]:
    """SciPy's `Rotation` class, imported on first use, so that groups load fast and need only NumPy."""
    from scipy.spatial import transform

    return transform.Rotation


def plane_turns(frequency: int, degrees: ArrayLike) -> Float[np.ndarray, "*batch d d"]:
    """Rotation matrices by `frequency` times each angle, (…, 2, 2); ones (…, 1, 1) for frequency 0."""
    angle = frequency * np.radians(np.asarray(degrees, np.float64))
    if not frequency:
        return np.ones((*angle.shape, 1, 1))
    c, s = np.cos(angle), np.sin(angle)
    return np.moveaxis(np.array([[c, -s], [s, c]]), (0, 1), (-2, -1))


def plane_isometries(frequency: int, odd: bool, g: Element) -> Float[np.ndarray, "*batch d d"]:
    """The irreps of O(2) at orthogonal matrices g (…, 2, 2). `odd`: for frequency 0, det g instead of 1."""
    g = np.asarray(g, np.float64)
    sign = np.round(np.linalg.det(g))
    turns = plane_turns(frequency, np.degrees(np.arctan2(g[..., 1, 0], g[..., 0, 0])))
    if not frequency:
        return turns * sign[..., None, None] if odd else turns
    turns[..., :, 1] *= sign[..., None]
    return turns


def space_rotations(degree: int, odd: bool, g: Element) -> Float[np.ndarray, "*batch d d"]:
    """D^l at det(g) g for orthogonal matrices g (…, 3, 3), times det g if `odd`."""
    g = np.asarray(g, np.float64)
    sign = np.round(np.linalg.det(g))
    R = g * sign[..., None, None]
    alpha = np.arctan2(R[..., 1, 2], R[..., 0, 2])
    # R_y(β) R_z(γ) = R_z(−α) R, exact for any α where the axis is nearly upright and α is noise
    c, s = np.cos(alpha)[..., None], np.sin(alpha)[..., None]
    first, second = c * R[..., 0, :] + s * R[..., 1, :], c * R[..., 1, :] - s * R[..., 0, :]
    beta = np.arctan2(first[..., 2], R[..., 2, 2])
    gamma = np.arctan2(second[..., 0], second[..., 1])
    basis, tilt, m = _generators(degree)
    phases = [np.exp(-1j * angle[..., None] * m) for angle in (alpha, beta, gamma)]
    # e^{−iβJ_y} = V e^{−iβm} V†
    middle = (tilt * phases[1][..., None, :]) @ tilt.conj().T
    D = phases[0][..., :, None] * middle * phases[2][..., None, :]
    found = np.real(basis.conj() @ D @ basis.T)
    return found * sign[..., None, None] if odd else found


@lru_cache(maxsize=64)
def _generators(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(real harmonics in terms of complex ones (d, d), eigenvectors of J_y ordered by m, the numbers m = −l .. l)."""
    m = np.arange(-degree, degree + 1)
    basis = np.zeros((len(m), len(m)), complex)
    basis[degree, degree] = 1
    for k in range(1, degree + 1):
        sign = (-1) ** k
        basis[degree + k, degree - k], basis[degree + k, degree + k] = 2**-0.5, sign * 2**-0.5
        basis[degree - k, degree - k], basis[degree - k, degree + k] = 1j * 2**-0.5, -1j * sign * 2**-0.5
    raising = np.zeros((len(m), len(m)))
    raising[np.arange(1, len(m)), np.arange(len(m) - 1)] = np.sqrt(degree * (degree + 1) - m[:-1] * (m[:-1] + 1))
    vectors = np.linalg.eigh((raising - raising.T) / 2j)[1]  # eigenvalues −l .. l, ascending
    return basis, vectors, m
