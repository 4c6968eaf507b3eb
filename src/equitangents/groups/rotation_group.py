"""The rotation groups SO(3) and O(3), as quadratures over the Haar measure.

R = R_z(α) R_y(β) R_z(γ), active rotations of column vectors; α and γ equidistant, cos β at Gauss–Legendre nodes. With
2B - 1, B and 2B - 1 nodes the rule integrates products of two functions of bandlimit B (Wigner functions of degree
below B) exactly.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.group import read_only

MAX_BANDLIMIT = 64  # a million rotations


@final
class RotationGroup:
    """SO(3), or O(3) with reflections, sampled for functions of a bandlimit; made by `so3` and `o3`.

    It has what a finite group of matrices has, too: `order` sample points, their `matrices` and `weights`. It is no
    finite group: its elements are all rotations, as matrices, and its sample points are not closed under
    multiplication. Immutable, hashable.
    """

    name: str
    bandlimit: int
    reflections: bool

    def __init__(self, bandlimit: int, reflections: bool):
        name = f"{'O' if reflections else 'SO'}(3)"
        vars(self).update(name=name, bandlimit=bandlimit, reflections=reflections)

    @property
    def order(self) -> int:
        """The number of sample points, (2B - 1)² B, twice as many with reflections."""
        return (2 * self.bandlimit - 1) ** 2 * self.bandlimit * (2 if self.reflections else 1)

    @property
    def identity(self) -> Float[np.ndarray, "3 3"]:
        """The unit matrix; it need not be a sample point."""
        return read_only(np.eye(3))

    @cached_property
    def euler_angles(self) -> Float[np.ndarray, "order 3"]:
        """(α, β, γ) of every sample point, in radians; with reflections, of its proper part."""
        alpha, cosine, _ = euler_grid(self.bandlimit)
        grid = np.stack(np.meshgrid(alpha, np.arccos(cosine), alpha, indexing="ij"), axis=-1).reshape(-1, 3)
        return read_only(np.concatenate([grid, grid]) if self.reflections else grid)

    @cached_property
    def matrices(self) -> Float[np.ndarray, "order 3 3"]:
        """Every sample point as a matrix; with reflections the second half are the negatives of the first."""
        R = from_euler_angles(self.euler_angles)
        if self.reflections:
            R[len(R) // 2 :] *= -1
        return read_only(R)

    @cached_property
    def weights(self) -> Float[np.ndarray, " order"]:
        """Weights of the Haar measure, which sum to 1."""
        alpha, _, w = euler_grid(self.bandlimit)
        grid = np.broadcast_to(w[None, :, None] / len(alpha) ** 2, (len(alpha), len(w), len(alpha))).ravel()
        return read_only(np.concatenate([grid, grid]) / 2 if self.reflections else grid.copy())

    def random(self, count: int, seed: int = 0) -> Float[np.ndarray, "count 3 3"]:
        """`count` independent elements drawn from the Haar measure."""
        rng = np.random.default_rng(seed)
        a, b, c, d = np.moveaxis(_unit(rng.normal(size=(count, 4))), -1, 0)
        R = np.array(
            [
                [1 - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c)],
                [2 * (b * c + a * d), 1 - 2 * (b * b + d * d), 2 * (c * d - a * b)],
                [2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b * b + c * c)],
            ]
        ).transpose(2, 0, 1)
        if self.reflections:
            R = R * rng.choice([-1.0, 1.0], size=(count, 1, 1))
        return R

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"groups are immutable; cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RotationGroup):
            return NotImplemented
        return (self.bandlimit, self.reflections) == (other.bandlimit, other.reflections)

    def __hash__(self) -> int:
        return hash((RotationGroup, self.bandlimit, self.reflections))

    def __len__(self) -> int:
        return self.order

    def __repr__(self) -> str:
        return f"<{self.name} sampled at bandlimit {self.bandlimit}, {self.order} points>"


def so3(bandlimit: int) -> RotationGroup:
    """SO(3) with a quadrature that is exact for products of two functions of bandlimit `bandlimit`.

    >>> G = so3(3)
    >>> G.order, G.matrices.shape, float(G.weights.sum().round(12))
    (75, (75, 3, 3), 1.0)
    """
    return RotationGroup(_check(bandlimit), reflections=False)


def o3(bandlimit: int) -> RotationGroup:
    """O(3), the rotations and their products with the inversion x ↦ -x, sampled as `so3`."""
    return RotationGroup(_check(bandlimit), reflections=True)


def euler_grid(resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(azimuths of α and of γ (2r - 1,), cos β (r,), weights of β (r,) that sum to 1) of the rule of resolution r."""
    nodes, weights = np.polynomial.legendre.leggauss(resolution)
    n = 2 * resolution - 1
    return 2 * np.pi * np.arange(n) / n, nodes[::-1], weights[::-1] / 2


def from_euler_angles(angles: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3 3"]:
    """R_z(α) R_y(β) R_z(γ) for angles (α, β, γ) in radians."""
    alpha, beta, gamma = np.moveaxis(np.asarray(angles, np.float64), -1, 0)
    return _about_z(alpha) @ _about_y(beta) @ _about_z(gamma)


def _about_z(t: np.ndarray) -> np.ndarray:
    c, s, o = np.cos(t), np.sin(t), np.zeros_like(t)
    return np.moveaxis(np.array([[c, -s, o], [s, c, o], [o, o, o + 1]]), (0, 1), (-2, -1))


def _about_y(t: np.ndarray) -> np.ndarray:
    c, s, o = np.cos(t), np.sin(t), np.zeros_like(t)
    return np.moveaxis(np.array([[c, o, s], [o, o + 1, o], [-s, o, c]]), (0, 1), (-2, -1))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _check(bandlimit: Any) -> int:
    if isinstance(bandlimit, bool) or not hasattr(bandlimit, "__index__"):
        raise InvalidTypeError(f"bandlimit is {bandlimit!r}; expected a whole number")
    number = int(bandlimit)
    if not 1 <= number <= MAX_BANDLIMIT:
        raise InvalidArgumentError(f"bandlimit is {number}; expected 1 to {MAX_BANDLIMIT}")
    return number
