"""Compact groups of rotations and reflections; quadratures of the Haar measure of SO(3) and O(3).

R = R_z(α) R_y(β) R_z(γ), active rotations of column vectors; α and γ equidistant, cos β at Gauss–Legendre nodes. With
2B - 1, B and 2B - 1 nodes the rule integrates products of two functions of bandlimit B (Wigner functions of degree
below B) exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element, Elements
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups.group import read_only
from equitangents.groups.rotations_of_space import random_rotations, rotation_angle, rotation_label
from equitangents.groups.symmetry_group import CompactIrrep, SymmetryGroup
from equitangents.validation import check_whole

MAX_BANDLIMIT = 64  # a million rotations
_TOLERANCES = {False: 1e-8, True: 1e-5}  # of R Rᵀ = 1, in double and in single precision


class CompactGroup(SymmetryGroup):
    """An infinite compact group, with nodes for means of band-limited functions, and its irreps."""

    bandlimit: int

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of nodes."""

    @abstractmethod
    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """The irreps over the real numbers of the first `count` frequencies or degrees, the trivial one first."""

    def is_same_group(self, other: SymmetryGroup) -> bool:
        """Whether both groups have the same name, whatever their bandlimits."""
        return isinstance(other, CompactGroup) and self.name == other.name

    def _value(self) -> tuple[Any, ...]:
        return (self.name, self.bandlimit)

    def __repr__(self) -> str:
        return f"<{self.name} sampled at bandlimit {self.bandlimit}, {self.order} points>"


class MatricesGroup(CompactGroup):
    """A compact group of orthogonal matrices; an element is a matrix, or the number of a node."""

    size: int
    """Rows of the matrices."""
    reflections: bool

    @property
    @abstractmethod
    def matrices(self) -> Float[np.ndarray, "nodes d d"]:
        """Every node of the quadrature as a matrix."""

    @property
    def nodes(self) -> Float[np.ndarray, "nodes d d"]:
        """The quadrature's elements, as matrices."""
        return self.matrices

    @property
    def identity(self) -> Float[np.ndarray, "d d"]:
        """The unit matrix; it need not be a node."""
        return read_only(np.eye(self.size))

    def check_element(self, name: str, g: Element) -> Float[np.ndarray, "d d"]:
        """`g`, a matrix of the group or the number of a node, as a checked matrix."""
        g = np.asarray(g)
        return self.check_elements(name, g[None] if g.ndim in (0, 2) else g)[0]

    def check_elements(self, name: str, elements: Elements) -> Float[np.ndarray, "k d d"]:
        """Elements, matrices (k, d, d) or numbers of nodes (k,), as checked matrices."""
        array, shape = np.asarray(elements), (self.size, self.size)
        if array.dtype.kind in "iu" and array.ndim == 1:
            outside = array[(array < 0) | (array >= self.order)]
            if outside.size:
                raise InvalidArgumentError(name, outside[0], range(self.order), "or give a matrix")
            return self.matrices[array]
        if array.shape[1:] != shape:
            raise ShapeError(name, array.shape, shape, "give matrices, or numbers of nodes")
        return check_rotations(name, array, self.reflections)

    def compose(self, a: Element, b: Element) -> np.ndarray:
        """The product of two matrices: first b, then a."""
        product: np.ndarray = self.check_element("a", a) @ self.check_element("b", b)
        return product

    def inverse(self, a: Element) -> np.ndarray:
        """The transposed matrix, which is the inverse."""
        transposed: np.ndarray = self.check_element("a", a).T
        return transposed

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees (0 to 180 in space); None for reflections."""
        return rotation_angle(self.check_element("g", g))


@final
class RotationGroup(MatricesGroup):
    """SO(3), or O(3) with reflections, with a quadrature for band-limited functions; made by `so3` and `o3`.

    Its elements are all rotations, as matrices. Like a finite group of matrices it has `order` sample points, their
    `matrices` and `weights`; they are not closed under multiplication.
    """

    size = 3

    def __init__(self, bandlimit: int, reflections: bool):
        name = f"{'O' if reflections else 'SO'}(3)"
        vars(self).update(name=name, bandlimit=bandlimit, reflections=reflections)

    @property
    def order(self) -> int:
        """The number of sample points, (2B - 1)² B, twice as many with reflections."""
        return (2 * self.bandlimit - 1) ** 2 * self.bandlimit * (2 if self.reflections else 1)

    @cached_property
    def euler_angles(self) -> Float[np.ndarray, "order 3"]:
        """(α, β, γ) of every sample point in radians; for O(3), of its rotation part."""
        alpha, cosine, _ = euler_grid(self.bandlimit)
        grid = np.stack(np.meshgrid(alpha, np.arccos(cosine), alpha, indexing="ij"), axis=-1).reshape(-1, 3)
        return read_only(np.concatenate([grid, grid]) if self.reflections else grid)

    @cached_property
    def matrices(self) -> Float[np.ndarray, "order 3 3"]:
        """Every sample point as a matrix; for O(3), the second half are the negatives of the first."""
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
        R = random_rotations(check_whole("count", count, 0), rng)
        if self.reflections:
            R = R * rng.choice([-1.0, 1.0], size=(count, 1, 1))
        return R

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Independent elements of the Haar measure; for O(3), every second one is multiplied by −1."""
        sign = -1 if self.reflections else 1
        return [sign**i * m for i, m in enumerate(random_rotations(count, rng))]

    def label(self, g: Element) -> str:
        """Rotation angle and axis, and whether the element includes the inversion, as text."""
        g = self.check_element("g", g)
        return rotation_label(g) if np.linalg.det(g) > 0 else f"inversion, {rotation_label(-g)}"

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """The irreps of degrees l < `count`, of dimension 2l + 1; for O(3), an even and an odd one per degree.

        Their matrices are those of `equitangents.sphere.transforms`. Vectors have l = 1, in the order (y, z, x); for
        O(3) they are the irrep that is odd under inversion.
        """
        degrees, parities = range(check_whole("count", count, 0)), (1, -1) if self.reflections else (1,)
        return tuple(CompactIrrep(self.name, l, parity) for l in degrees for parity in parities)


def so3(bandlimit: int) -> RotationGroup:
    """SO(3) with a quadrature that is exact for products of two functions of bandlimit `bandlimit`.

    >>> G = so3(3)
    >>> G.order, G.matrices.shape, float(G.weights.sum().round(12))
    (75, (75, 3, 3), 1.0)
    """
    return RotationGroup(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT), reflections=False)


def o3(bandlimit: int) -> RotationGroup:
    """O(3), the rotations and their products with the inversion x ↦ -x, sampled as `so3`."""
    return RotationGroup(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT), reflections=True)


def euler_grid(resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of the rule of resolution r: azimuths of α and γ (2r − 1,), cos β (r,), and weights of β (r,) of sum 1."""
    nodes, weights = np.polynomial.legendre.leggauss(resolution)
    n = 2 * resolution - 1
    return 2 * np.pi * np.arange(n) / n, nodes[::-1], weights[::-1] / 2


def from_euler_angles(angles: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3 3"]:
    """The rotations R_z(α) R_y(β) R_z(γ) for angles (α, β, γ) in radians."""
    alpha, beta, gamma = np.moveaxis(np.asarray(angles, np.float64), -1, 0)
    return _about_z(alpha) @ _about_y(beta) @ _about_z(gamma)


def check_rotations(name: str, matrices: object, reflections: bool) -> Float[np.ndarray, "*batch d d"]:
    """`matrices` as float64; raises unless they are orthogonal and, without `reflections`, of determinant 1."""
    M = np.asarray(matrices, np.float64)
    single = np.asarray(matrices).dtype == np.float32
    wrong = ~(np.abs(M @ np.swapaxes(M, -1, -2) - np.eye(M.shape[-1])).max(axis=(-2, -1)) <= _TOLERANCES[bool(single)])
    if wrong.any():
        raise InvalidArgumentError(name, M[wrong][0].tolist(), "orthogonal matrices", verb="holds")
    if not reflections and (np.linalg.det(M) < 0).any():
        raise InvalidArgumentError(
            name, "a reflection", "determinants of 1", "groups.o2 and groups.o3 have reflections", verb="holds"
        )
    return M


def _about_z(t: np.ndarray) -> np.ndarray:
    c, s, o = np.cos(t), np.sin(t), np.zeros_like(t)
    return np.moveaxis(np.array([[c, -s, o], [s, c, o], [o, o, o + 1]]), (0, 1), (-2, -1))


def _about_y(t: np.ndarray) -> np.ndarray:
    c, s, o = np.cos(t), np.sin(t), np.zeros_like(t)
    return np.moveaxis(np.array([[c, o, s], [o, o + 1, o], [-s, o, c]]), (0, 1), (-2, -1))
