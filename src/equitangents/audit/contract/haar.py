"""Groups with more elements than can be tried: SO(2), SO(3), O(3), and S_n, sampled by their Haar measures."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import numpy as np
from scipy.linalg import expm

from equitangents.audit.contract.symmetry import Flow, Symmetry

_AXES = {
    "turn about x": np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "turn about y": np.array([[0.0, 0, 1], [0, 0, 0], [-1, 0, 0]]),
    "turn about z": np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]),
}


@final
class SO2(Symmetry):
    """Rotations of the plane; elements are angles in degrees, counter-clockwise."""

    name = "SO(2)"
    order = None
    default_elements = 24
    identity = 0.0

    def draw(self, count: int, rng: np.random.Generator) -> list[float]:
        """Equidistant angles with one random offset: unbiased, with less variance than independent ones."""
        return [float(a) for a in np.sort((rng.uniform(0, 360) + 360 * np.arange(count) / count) % 360)]

    def compose(self, a: float, b: float) -> float:
        """Sum of the angles."""
        return (a + b) % 360

    def inverse(self, a: float) -> float:
        """The opposite angle."""
        return -a % 360

    def angle(self, g: float) -> float:
        """The angle itself."""
        return float(g)

    def label(self, g: float) -> str:
        """Degrees."""
        return f"{g:.1f}°"

    def parameter(self, g: float) -> float:
        """Degrees."""
        return float(g)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Turning."""
        return (Flow("turn", "radian", lambda t: float(np.degrees(t))),)


class _Orthogonal(Symmetry):
    """What SO(3) and O(3) share: elements are 3×3 matrices."""

    order = None
    default_elements = 32

    @property
    def identity(self) -> np.ndarray:
        """The unit matrix."""
        return np.eye(3)

    def compose(self, a: Any, b: Any) -> np.ndarray:
        """Matrix product."""
        return a @ b

    def inverse(self, a: Any) -> np.ndarray:
        """Transpose."""
        return a.T

    def angle(self, g: Any) -> float | None:
        """Angle of the rotation; None for reflections."""
        return rotation_angle(g)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Turns about the three axes."""
        return tuple(Flow(name, "radian", partial(_exponential, xi)) for name, xi in _AXES.items())


@final
class SO3(_Orthogonal):
    """Rotations of space."""

    name = "SO(3)"

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Independent, from uniform unit quaternions (Shoemake 1992)."""
        return [_from_quaternion(q) for q in rng.normal(size=(count, 4))]

    def label(self, g: Any) -> str:
        """Angle and axis."""
        axis = rotation_axis(g)
        return f"{rotation_angle(g):.1f}° about ({axis[0]:.2f}, {axis[1]:.2f}, {axis[2]:.2f})"


@final
class O3(_Orthogonal):
    """Rotations and reflections of space."""

    name = "O(3)"

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Rotations and rotations times −1, in turn."""
        return [(-1) ** i * m for i, m in enumerate(SO3().draw(count, rng))]

    def label(self, g: Any) -> str:
        """The rotation, and whether it comes with the inversion."""
        return SO3().label(g) if np.linalg.det(g) > 0 else f"inversion, {SO3().label(-g)}"


@final
class Permutations(Symmetry):
    """S_n for any n; element p takes position i to p[i]."""

    default_elements = 32

    def __init__(self, n: int):
        self.n = n
        self.name = f"S{n}"
        self.order = None

    @property
    def identity(self) -> np.ndarray:
        """The permutation that moves nothing."""
        return np.arange(self.n)

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Independent uniform permutations."""
        return [rng.permutation(self.n) for _ in range(count)]

    def compose(self, a: Any, b: Any) -> np.ndarray:
        """(a·b)[i] = a[b[i]]."""
        return a[b]

    def inverse(self, a: Any) -> np.ndarray:
        """The inverse permutation."""
        return np.argsort(a)

    def label(self, g: Any) -> str:
        """The images of the first positions."""
        shown = ",".join(map(str, g[:8]))
        return f"({shown}{',…' if self.n > 8 else ''})"


def rotation_angle(g: Any) -> float | None:
    """Degrees by which an orthogonal matrix of determinant 1 turns, 0 to 180 in space and −180 to 180 in the plane."""
    if np.linalg.det(g) < 0:
        return None
    if len(g) == 2:
        return float(np.degrees(np.arctan2(g[1, 0], g[0, 0])))
    # the sine comes from the antisymmetric part, which keeps small angles accurate
    sine = np.linalg.norm([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]]) / 2
    return float(np.degrees(np.arctan2(sine, (np.trace(g) - 1) / 2)))


def rotation_axis(g: Any) -> np.ndarray:
    """The unit vector that a rotation of space leaves alone, to its sign."""
    values, vectors = np.linalg.eig(g)
    axis = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    sense = np.array([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])
    return axis if axis @ sense >= 0 else -axis


def _from_quaternion(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _exponential(xi: np.ndarray, t: float) -> np.ndarray:
    return expm(t * xi)
