"""Transformations of data: one random element of a group, applied to every signal; and paths from the identity.

x ↦ τx with τ orthogonal, seeded and invertible: |τx| = |x|, τ⁻¹(τx) = x. Haar-distributed matrices are the Q of a
decomposition QR of a Gaussian matrix, R with a positive diagonal.

A path is t ↦ exp(−tA). A is antisymmetric with independent Gaussian entries above its diagonal, of variance 1/(n − 1),
n its size: so E|Ax|² = |x|², and t is the length that a signal has gone, in units of its norm. The path stays among the
rotations, the part of the group that is connected with the identity.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.linalg.lapack
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import (
    ArrayLike,
    Numbers,
    check_array,
    check_fits,
    check_number,
    check_shape,
    check_whole,
    precision,
)
from equitangents_studies.systems.data_groups import DataGroup, data_group


def haar(rng: np.random.Generator, size: int) -> Float[np.ndarray, "size size"]:
    """One matrix of O(size), made in the memory of one matrix.

    Without the signs of R's diagonal, Q would have the distribution of the algorithm that makes it. Source: Mezzadri
    2007, How to generate random matrices from the classical compact groups.
    """
    matrix = rng.standard_normal((size, size)).T  # LAPACK's order, so that it can overwrite
    packed, scales, _, failed = scipy.linalg.lapack.dgeqrf(matrix, overwrite_a=1)
    assert failed == 0, failed
    signs = np.where(np.diagonal(packed) < 0, -1.0, 1.0)
    matrix, _, failed = scipy.linalg.lapack.dorgqr(packed, scales, overwrite_a=1)
    assert failed == 0, failed
    matrix *= signs
    return matrix


def haar_each(rng: np.random.Generator, count: int, size: int) -> Float[np.ndarray, "count size size"]:
    """`count` independent matrices of O(size)."""
    matrices, triangles = np.linalg.qr(rng.standard_normal((count, size, size)))
    signs = np.where(np.diagonal(triangles, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return matrices * signs[:, None, :]


_ROWS = 256  # signals moved at once, in float64


@dataclass(frozen=True, eq=False)
class Transformation(abc.ABC):
    """One element τ of a group, acting on signals (N, *positions, channels); `tau(x)` moves them.

    `tau.inverse(tau(x))` is x to rounding. The matrices are float64; a moved array has the type of the given one.
    """

    group: DataGroup
    shape: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The dimension of the group that it was drawn from."""
        return self.group.dimension

    @property
    @abc.abstractmethod
    def inverse(self) -> Transformation:
        """τ⁻¹, which shares this one's memory where that is large."""

    @abc.abstractmethod
    def _rows(self, x: np.ndarray) -> np.ndarray:
        """τ of float64 rows (n, positions, channels)."""

    @property
    @abc.abstractmethod
    def orthogonality_error(self) -> float:
        """The largest entry of |ττᵀ − 1|; some 1e-15 for an orthogonal matrix in float64."""

    def __call__(self, x: Numbers) -> Any:
        """The moved signals, (N, *positions, channels), of the type and precision of x."""
        signals = check_array("x", x, min_rank=2, allow_empty=True)
        if signals.shape[1:] != self.shape:
            raise ShapeError("x", signals.shape, ("N", *self.shape), "the shape that this transformation moves")
        return self.moved(signals)

    def moved(self, x: ArrayLike) -> Any:
        """As a call, without its checks."""
        given = np.asarray(x)
        rows = given.reshape(len(given), self.group.positions, self.group.channels)
        y = np.empty_like(rows)
        for begin in range(0, len(rows), _ROWS):
            part = slice(begin, begin + _ROWS)
            y[part] = self._rows(np.asarray(rows[part], np.float64))
        y = y.reshape(given.shape)
        return jnp.asarray(y, x.dtype) if isinstance(x, jax.Array) else y

    def matrix(self) -> np.ndarray:
        """τ as a matrix (cd, cd) on signals written row-major, the channels of a position side by side."""
        basis = np.eye(self.group.positions * self.group.channels)
        return np.asarray(self.moved(basis.reshape(-1, *self.shape))).reshape(basis.shape).T

    def __repr__(self) -> str:
        return f"<an element of {self.group} on signals of shape {self.shape}>"


@final
@dataclass(frozen=True, eq=False, repr=False)
class ChannelRotations(Transformation):
    """A matrix for the channels: (1, c, c) the same at every position, or (d, c, c) one for each."""

    matrices: np.ndarray

    @property
    def inverse(self) -> ChannelRotations:
        """The inverse rotations: transposed matrices."""
        return ChannelRotations(self.group, self.shape, self.matrices.swapaxes(1, 2))

    @property
    def orthogonality_error(self) -> float:
        """The largest over positions."""
        products = self.matrices @ self.matrices.swapaxes(1, 2)
        return float(np.max(np.abs(products - np.eye(self.group.channels))))

    def _rows(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("pij,npj->npi", np.broadcast_to(self.matrices, (x.shape[1], *self.matrices.shape[1:])), x)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Permutation(Transformation):
    """Coordinate i of τx is coordinate `order[i]` of x."""

    order: np.ndarray

    @property
    def inverse(self) -> Permutation:
        """The permutation that undoes this one."""
        return Permutation(self.group, self.shape, np.argsort(self.order))

    @property
    def orthogonality_error(self) -> float:
        """0 for a permutation, else 1: a coordinate is missing."""
        return 0.0 if np.array_equal(np.sort(self.order), np.arange(len(self.order))) else 1.0

    def _rows(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1)[:, self.order].reshape(x.shape)


@final
@dataclass(frozen=True, eq=False, repr=False)
class FullRotation(Transformation):
    """A matrix (cd, cd) for all coordinates; its inverse is a view of it."""

    full: np.ndarray

    @property
    def inverse(self) -> FullRotation:
        """The inverse rotation: the transposed matrix."""
        return FullRotation(self.group, self.shape, self.full.T)

    @property
    def orthogonality_error(self) -> float:
        """Computed in strips of rows."""
        worst = []
        for begin in range(0, len(self.full), _ROWS):
            product = self.full[begin : begin + _ROWS] @ self.full.T
            product[np.arange(len(product)), begin + np.arange(len(product))] -= 1
            worst.append(np.max(np.abs(product)))
        return float(np.max(worst))

    def _rows(self, x: np.ndarray) -> np.ndarray:
        return (x.reshape(len(x), -1) @ self.full.T).reshape(x.shape)


def like(reference: ArrayLike, value: np.ndarray) -> ArrayLike:
    """`value` as an array of the type and precision of `reference`."""
    array = np.asarray(value, np.dtype(reference.dtype))
    if not isinstance(reference, jax.Array):
        return array
    with precision.scope(array.dtype):
        return jax.numpy.asarray(array)


def transformation(group: str, shape: tuple[int, ...], *, seed: int = 0) -> Transformation:
    """A random element of `group` on signals of `shape` = (*positions, channels), a function of the seed alone.

    Orthogonal matrices are Haar-distributed, permutations uniform. Groups: "I", "O(3)xI", "O(3)^d", "P(3d)", "O(3d)";
    3 stands for the channels, whatever their number. An element of O(3d) for d = 1,024 holds one matrix of 3,072 ×
    3,072 numbers (75 MB), and making it takes no second one.

    >>> import numpy as np
    >>> tau = transformation("O(3)^d", (4, 4, 3), seed=1)
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> bool(np.allclose(tau.inverse(tau(x)), x)), tau.dimension, tau.orthogonality_error < 1e-14
    (True, 48, True)

    Source: Xiao & Pennington 2022, arXiv 2207.04612.
    """
    shape = check_shape("shape", shape)
    kind = data_group(group, shape)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    c, count = kind.channels, kind.positions if kind.reach == "own" else 1
    if kind.letter == "I":
        return ChannelRotations(kind, shape, np.eye(c)[None])
    if kind.letter == "P":
        return Permutation(kind, shape, rng.permutation(kind.size))
    if kind.reach == "all":
        remedy = "make the inputs smaller, or move every position by itself with O(3)^d"
        check_fits(f"a random element of O({kind.size:,})", 8 * kind.size**2, remedy)
        return FullRotation(kind, shape, haar(rng, kind.size))
    return ChannelRotations(kind, shape, haar_each(rng, count, c))


def rotate(x: Numbers, group: str, seed: int = 0, *, inverse: bool = False) -> Any:
    """x (N, *positions, channels) moved by the random element of `group` that the seed draws; all signals alike.

    `inverse`: moved by its inverse, so that `rotate(rotate(x, g, s), g, s, inverse=True)` is x. To move training and
    test data by the same element, use the same seed, or make it once with `transformation`.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> y = rotate(x, "O(3d)", seed=0)
    >>> y.shape, bool(np.allclose(np.linalg.norm(y.reshape(5, -1), axis=1), np.linalg.norm(x.reshape(5, -1), axis=1)))
    ((5, 4, 4, 3), True)
    """
    signals = check_array("x", x, min_rank=2, allow_empty=True)
    tau = transformation(group, signals.shape[1:], seed=seed)
    return tau.inverse(signals) if inverse else tau(signals)


@dataclass(frozen=True, eq=False)
class Path:
    """`path(t)` is the transformation exp(−tA); `path(0)` is the identity.

    `generators`: A, (1, c, c) or (d, c, c) on channels, (1, cd, cd) on all coordinates.
    """

    group: DataGroup
    shape: tuple[int, ...]
    generators: np.ndarray

    def __call__(self, t: float) -> Transformation:
        """The transformation at t."""
        check_number("t", t, "a finite number", lambda t: True)
        matrices = scipy.linalg.expm(-float(t) * self.generators)
        if self.group.reach == "all":
            return FullRotation(self.group, self.shape, matrices[0])
        return ChannelRotations(self.group, self.shape, matrices)


def path(group: str, shape: tuple[int, ...], *, seed: int = 0) -> Path:
    """A random path from the identity into `group`, one of "O(3)xI", "O(3)^d" and "O(3d)", on signals of `shape`.

    >>> import numpy as np
    >>> into = path("O(3)^d", (4, 4, 3), seed=0)
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> bool(np.allclose(into(0.0)(x), x)), into(0.5).orthogonality_error < 1e-13
    (True, True)

    Source: Xiao & Pennington 2022, arXiv 2207.04612, figure S1; the scale of A is this library's.
    """
    shape = check_shape("shape", shape)
    kind = data_group(group, shape)
    if kind.letter != "O" or kind.size < 2:
        raise InvalidArgumentError("group", group, "one with paths that lead away from the identity")
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    count = kind.positions if kind.reach == "own" else 1
    entries = np.triu(rng.standard_normal((count, kind.size, kind.size)), 1) / np.sqrt(kind.size - 1)
    return Path(kind, shape, entries - entries.swapaxes(1, 2))
