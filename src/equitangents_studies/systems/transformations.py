"""Groups that act on data, random elements, paths from the identity; and generated textures.

Groups, subgroups of O(cd), which acts on all c channels of all d positions at once:

I         only the identity
O(c)xI    one rotation or reflection of the channels, the same at every position
O(c)^d    one of its own at every position
P(cd)     permutations of all coordinates, channels and positions alike
O(cd)     all orthogonal matrices

An element is x ↦ τx with τ orthogonal, seeded and invertible: |τx| = |x|, τ⁻¹(τx) = x. Haar-distributed matrices are
the Q of a decomposition QR of a Gaussian matrix, R with a positive diagonal.

A path is t ↦ exp(−tA). A is antisymmetric with independent Gaussian entries above its diagonal, of variance 1/(n − 1),
n its size: so E|Ax|² = |x|², and t is the length that a signal has gone, in units of its norm. The path stays among the
rotations, the part of the group that is connected with the identity.

Textures of class k are white noise through filters of the class, x(p) = Σ_u F_k(u) z(p − u) on a torus, 3 taps a side,
F_k(u) a random matrix of the channels. Their law is the same at every position, and O(c)xI maps it to that of other
filters; a different matrix at every position destroys it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.linalg.lapack
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
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

_KINDS = {
    "I": ("I", "same"),
    "O(3)xI": ("O", "same"),
    "O(3)^d": ("O", "own"),
    "P(3d)": ("P", "all"),
    "O(3d)": ("O", "all"),
}
NAMES = tuple(_KINDS)
"""The five groups of Xiao & Pennington 2022, in the names of images with 3 channels."""

_HELD = {"O(3d)": {"P(3d)", "O(3)^d", "O(3)xI"}, "O(3)^d": {"O(3)xI"}}  # apart from the identity and the group itself


@dataclass(frozen=True)
class DataGroup:
    """A group that moves signals of shape (*positions, channels).

    Args:
        letter: "O" for orthogonal matrices, "P" for permutations, "I" for the identity.
        reach: "same" at every position, one of its "own" at every position, or "all" coordinates at once.
        positions: d, how many positions there are.
        channels: c.
    """

    letter: str
    reach: str
    positions: int
    channels: int

    @property
    def kind(self) -> str:
        """The group's name with 3 for the channels, such as "O(3)^d"."""
        return next(kind for kind, made in _KINDS.items() if made == (self.letter, self.reach))

    @property
    def name(self) -> str:
        """The group's name with the actual number of channels."""
        return self.kind.replace("3", str(self.channels))

    @property
    def size(self) -> int:
        """Size of an element's matrix: c, or cd for groups that act on all coordinates."""
        return self.channels * (self.positions if self.reach == "all" else 1)

    @property
    def dimension(self) -> int:
        """The dimension of the group as a manifold; 0 for finite groups. That of O(n) is n(n − 1)/2."""
        if self.letter != "O":
            return 0
        copies = self.positions if self.reach == "own" else 1
        return copies * self.size * (self.size - 1) // 2

    def holds(self, other: DataGroup) -> bool:
        """Whether `other` is a subgroup of this one by its kind; O(c)xI is in O(c)^d, which is in O(cd)."""
        return other.kind in {"I", self.kind, *_HELD.get(self.kind, ())}

    def __str__(self) -> str:
        return self.name


def data_group(name: str, shape: tuple[int, ...]) -> DataGroup:
    """The group called `name` on signals of `shape` = (*positions, channels).

    In names 3 stands for the channels, as in the source.

    >>> data_group("O(3)^d", (32, 32, 3)).dimension
    3072
    >>> data_group("O(3d)", (32, 32, 1)).name
    'O(1d)'
    """
    if not isinstance(name, str):
        raise InvalidTypeError("group", name, "the name of a group", ", ".join(NAMES))
    positions, channels = math.prod(map(int, shape[:-1])), int(shape[-1])
    kind, number = re.sub(r"\d+", "3", name, count=1), re.search(r"\d+", name)
    if kind not in _KINDS:
        raise InvalidArgumentError("group", name, [*NAMES], "3 stands for the channels")
    if number and int(number[0]) not in (3, channels):
        raise InvalidArgumentError("group", name, channels, "the number of channels, or 3, in its place")
    return DataGroup(*_KINDS[kind], positions, channels)


LARGEST = {"FCN": "O(3d)", "LCN": "O(3)^d", "VEC": "O(3)^d", "GAP": "O(3)xI", "LAP": "O(3)xI"}
"""The largest of the groups under which each architecture's algorithm is symmetric at infinite width."""


def expected_symmetry(name: str, group: str, shape: tuple[int, ...], *, finite: bool) -> bool:
    """Whether Theorem 4.1 says that the architecture's algorithm is symmetric under the group.

    >>> [expected_symmetry("VEC", "O(3)^d", (8, 8, 3), finite=finite) for finite in (False, True)]
    [True, False]
    """
    largest = "O(3)xI" if finite and name == "VEC" else LARGEST[name[:3]]
    return data_group(largest, shape).holds(data_group(group, shape))


def haar(rng: np.random.Generator, size: int) -> Float[np.ndarray, "size size"]:
    """A Haar-distributed matrix of O(size), using the memory of one matrix.

    Q times the signs of R's diagonal is Haar-distributed; Q itself is not. Source: Mezzadri 2007, How to generate
    random matrices from the classical compact groups.
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


@final
@dataclass(frozen=True, eq=False, repr=False)
class Transformation:
    """One element τ of a group, acting on signals (N, *positions, channels); `tau(x)` moves them.

    `tau.inverse(tau(x))` is x to rounding. `values`: matrices for the channels, (1, c, c) the same at every position or
    (d, c, c) one for each; one matrix (cd, cd) for all coordinates; or a permutation (cd,), coordinate i of τx being
    coordinate values[i] of x. Matrices are float64; a moved array has the type of the given one.
    """

    group: DataGroup
    shape: tuple[int, ...]
    values: np.ndarray

    @property
    def dimension(self) -> int:
        """The dimension of the group that it was drawn from."""
        return self.group.dimension

    @property
    def inverse(self) -> Transformation:
        """τ⁻¹; for matrices their transpose, a view."""
        values = np.argsort(self.values) if self.values.ndim == 1 else self.values.swapaxes(-1, -2)
        return Transformation(self.group, self.shape, values)

    def __call__(self, x: Numbers) -> Any:
        """The moved signals, (N, *positions, channels), of the type and precision of x."""
        given = check_array("x", x, min_rank=2, allow_empty=True)
        if given.shape[1:] != self.shape:
            raise ShapeError("x", given.shape, ("N", *self.shape), "the shape that this transformation moves")
        rows = np.asarray(given).reshape(len(given), self.group.positions, self.group.channels)
        y = np.empty_like(rows)
        for begin in range(0, len(rows), _ROWS):
            part = slice(begin, begin + _ROWS)
            y[part] = self._rows(np.asarray(rows[part], np.float64))
        y = y.reshape(given.shape)
        return jnp.asarray(y, given.dtype) if isinstance(given, jax.Array) else y

    def _rows(self, x: Float[np.ndarray, "n positions channels"]) -> Float[np.ndarray, "n positions channels"]:
        if self.values.ndim == 3:
            return np.einsum("pij,npj->npi", np.broadcast_to(self.values, (x.shape[1], *self.values.shape[1:])), x)
        flat = x.reshape(len(x), -1)
        return (flat[:, self.values] if self.values.ndim == 1 else flat @ self.values.T).reshape(x.shape)

    def matrix(self) -> np.ndarray:
        """τ as a matrix (cd, cd) on row-major signals, with the channels of a position adjacent."""
        basis = np.eye(self.group.positions * self.group.channels)
        return np.asarray(self(basis.reshape(-1, *self.shape))).reshape(basis.shape).T

    def __repr__(self) -> str:
        return f"<an element of {self.group} on signals of shape {self.shape}>"


def like(reference: ArrayLike, value: np.ndarray) -> ArrayLike:
    """`value` as an array of the type and precision of `reference`."""
    array = np.asarray(value, np.dtype(reference.dtype))
    if not isinstance(reference, jax.Array):
        return array
    with precision.scope(array.dtype):
        return jax.numpy.asarray(array)


def transformation(group: str, shape: tuple[int, ...], *, seed: int = 0) -> Transformation:
    """A random element of `group` on signals of `shape` = (*positions, channels), determined by the seed.

    Orthogonal matrices are Haar-distributed, permutations uniform. Groups: "I", "O(3)xI", "O(3)^d", "P(3d)", "O(3d)"; 3
    stands for the number of channels. An element of O(3d) with d = 1,024 is one matrix of 3,072 × 3,072 numbers (75
    MB); no second one is allocated.

    >>> import numpy as np
    >>> tau = transformation("O(3)^d", (4, 4, 3), seed=1)
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> bool(np.allclose(tau.inverse(tau(x)), x)), tau.dimension
    (True, 48)

    Source: Xiao & Pennington 2022, arXiv 2207.04612.
    """
    shape = check_shape("shape", shape)
    kind = data_group(group, shape)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    c, count = kind.channels, kind.positions if kind.reach == "own" else 1
    if kind.letter == "I":
        return Transformation(kind, shape, np.eye(c)[None])
    if kind.letter == "P":
        return Transformation(kind, shape, rng.permutation(kind.size))
    if kind.reach == "all":
        remedy = "make the inputs smaller, or move every position by itself with O(3)^d"
        check_fits(f"a random element of O({kind.size:,})", 8 * kind.size**2, remedy)
        return Transformation(kind, shape, haar(rng, kind.size))
    return Transformation(kind, shape, haar_each(rng, count, c))


def rotate(x: Numbers, group: str, seed: int = 0, *, inverse: bool = False) -> Any:
    """Move all signals x (N, *positions, channels) by one random element of `group`, drawn by the seed.

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


def path(group: str, shape: tuple[int, ...], *, seed: int = 0) -> Callable[[float], Transformation]:
    """A random path t ↦ exp(−tA) from the identity into `group`, one of "O(3)xI", "O(3)^d" and "O(3d)", on signals of
    `shape`.

    >>> import numpy as np
    >>> into = path("O(3)^d", (4, 4, 3), seed=0)
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3))
    >>> bool(np.allclose(into(0.0)(x), x))
    True

    Source: Xiao & Pennington 2022, arXiv 2207.04612, figure S1; the scale of A is this library's.
    """
    shape = check_shape("shape", shape)
    kind = data_group(group, shape)
    if kind.letter != "O" or kind.size < 2:
        raise InvalidArgumentError("group", group, "one with paths that lead away from the identity")
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    count = kind.positions if kind.reach == "own" else 1
    entries = np.triu(rng.standard_normal((count, kind.size, kind.size)), 1) / np.sqrt(kind.size - 1)
    A = entries - entries.swapaxes(1, 2)

    def at(t: float) -> Transformation:
        check_number("t", t, "a finite number", lambda t: True)
        matrices = scipy.linalg.expm(-float(t) * A)
        return Transformation(kind, shape, matrices[0] if kind.reach == "all" else matrices)

    return at


class Textures(NamedTuple):
    """`x` (N, *positions, channels), of mean 0 and variance 1 over all entries in expectation, and `labels` (N,)."""

    x: Float[np.ndarray, "n *positions channels"]
    labels: np.ndarray


def textures(
    count: int, shape: tuple[int, ...] = (8, 8, 3), classes: int = 5, *, tint: float = 0.0, seed: int = 0
) -> Textures:
    """`count` signals of `shape` = (*positions, channels), classes in cyclic order; filters and noise by seed.

    `tint`: the share of the variance that is one random colour for all of a signal's positions, whatever its class, as
    neighbouring pixels of photographs are alike.

    >>> drawn = textures(20, (8, 8, 3), classes=5, seed=0)
    >>> drawn.x.shape, drawn.labels[:6].tolist()
    ((20, 8, 8, 3), [0, 1, 2, 3, 4, 0])
    """
    check_whole("count", count, 1)
    check_whole("classes", classes, 1)
    check_number("tint", tint, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    shape = check_shape("shape", shape)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    grid, c = shape[:-1], shape[-1]
    axes = tuple(range(1, len(shape)))
    filters = np.zeros((classes, *grid, c, c))
    taps = np.indices((3,) * len(grid)).reshape(len(grid), -1).T
    for tap in taps:
        filters[(slice(None), *(tap % grid))] += rng.standard_normal((classes, c, c))
    filters /= np.sqrt((filters**2).sum(axis=(*axes, len(shape)), keepdims=True).sum(axis=-1, keepdims=True) / c)
    labels = np.arange(count) % classes
    noise = rng.standard_normal((count, *shape))
    colours = rng.standard_normal((count, *(1 for _ in grid), c))
    mixed = lambda x: Textures((1 - tint) ** 0.5 * x + tint**0.5 * colours, labels)
    if not grid:
        return mixed(np.einsum("nij,nj->ni", filters[labels], noise))
    spectrum = np.einsum("n...ij,n...j->n...i", np.fft.fftn(filters, axes=axes)[labels], np.fft.fftn(noise, axes=axes))
    return mixed(np.fft.ifftn(spectrum, axes=axes).real)


@dataclass(frozen=True, eq=False)
class Sample:
    """Training inputs x (N, …), labels or targets y, and test inputs."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray


def sample_data() -> Sample:
    """60 training and 20 test inputs of tinted `textures`, which a wrong group destroys."""
    x, labels = textures(80, (8, 8, 3), 3, tint=0.8, seed=0)
    return Sample(x[:60], labels[:60], x[60:])
