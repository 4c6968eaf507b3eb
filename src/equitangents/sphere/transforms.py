"""Transforms between harmonic coefficients and grids, f(x) = Σ_lm c_lm Y_lm(x), c_lm = ∫ f(x) Y_lm(x) dx; rotations.

A grid has rings of equal polar angle θ, each of n_φ equidistant azimuths φ_k = 2πk/n_φ; an integral is Σ_jk w_j f(θ_j,
φ_k) with Σ_jk w_j = 4π, exact for products of two functions of bandlimit B.

(ρ(R) f)(x) = f(R⁻¹x) has the coefficients D(R) c. D is the real orthogonal representation with Y(Rx) = D(R) Y(x),
block-diagonal in the degree, and D(RS) = D(R) D(S). Its blocks are D^l(R) = ∫ Y_l(Rx) Y_l(x)ᵀ dx, computed by exact
quadrature: without angles or singular rotations, and also for improper R (determinant -1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups.rotation_group import check_rotations
from equitangents.sphere.harmonics import check_bandlimit, check_coefficients, polynomials
from equitangents.validation import check_array


@dataclass(frozen=True, eq=False)
class SphereGrid:
    """`points` (n_θ, n_φ, 3), unit vectors, and quadrature `weights` (n_θ, n_φ), which sum to 4π."""

    bandlimit: int
    points: Float[np.ndarray, "n_theta n_phi 3"]
    weights: Float[np.ndarray, "n_theta n_phi"]


@lru_cache(maxsize=64)
def gauss_legendre(bandlimit: int) -> SphereGrid:
    """B rings at the Gauss–Legendre nodes of cos θ, from north to south, with 2B - 1 azimuths."""
    B = check_bandlimit("bandlimit", bandlimit)
    nodes, weights = np.polynomial.legendre.leggauss(B)
    n = 2 * B - 1
    theta, phi = np.arccos(nodes[::-1])[:, None], 2 * np.pi * np.arange(n) / n
    z = np.broadcast_to(np.cos(theta), (B, n))
    points = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), z], axis=-1)
    return SphereGrid(B, points, np.broadcast_to((weights[::-1] * (2 * np.pi / n))[:, None], (B, n)))


_LOST = {"float32": 1e-8, "float64": 1e-20}  # relative power outside the bandlimit that counts as rounding


@dataclass(frozen=True)
class Projection:
    """`coefficients` (N, B², C) below a bandlimit, and `lost_power` (N, C), the part of ∫ f² at or above it.

    `lost_power` is relative to ∫ f² by the grid's quadrature; for a signal that the grid does not resolve
    it is an estimate.
    """

    coefficients: Float[ArrayLike, "n harmonics channels"]
    lost_power: Float[ArrayLike, "n channels"]


def to_grid(
    c: Float[ArrayLike, "n harmonics channels"], bandlimit: int | None = None
) -> Float[ArrayLike, "n n_theta n_phi channels"]:
    """Values of signals with the coefficients c on the Gauss–Legendre grid (B, 2B - 1).

    `bandlimit`: B of the grid, at least that of the coefficients (the default).

    >>> c = np.zeros((1, 4, 1)); c[0, 0] = 2 * np.sqrt(np.pi)
    >>> to_grid(c)[0, :, :, 0]
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    c, own = check_coefficients("c", c)
    chosen = gauss_legendre(own if bandlimit is None else check_bandlimit("bandlimit", bandlimit))
    if chosen.bandlimit < own:
        raise InvalidArgumentError("bandlimit", bandlimit, f"at least {own}, that of the coefficients")
    basis = _synthesis(chosen, own)
    with precision.scope(c.dtype):
        return _multiply("tpk,nkc->ntpc", basis.astype(c.dtype), c)


def from_grid(values: Float[ArrayLike, "n n_theta n_phi channels"]) -> Float[ArrayLike, "n harmonics channels"]:
    """Coefficients of signals on a Gauss–Legendre grid that resolves them.

    Power outside the grid's bandlimit raises an error (`project` truncates it); traced arrays are not checked.

    Raises:
        ShapeError: if the shape is not (B, 2B - 1).
        InvalidArgumentError: if a signal is not band-limited.
    """
    values = check_array("values", values, rank=4)
    chosen = _grid_of(values.shape[1:3])
    result = project(values, chosen.bandlimit)
    if not precision.is_traced(values):
        lost = float(np.max(np.asarray(result.lost_power)))
        if lost > _LOST[precision.working_dtype(values).name]:
            raise InvalidArgumentError(
                "values",
                lost,
                "none",
                "use a finer grid, or sphere.project to truncate",
                verb="hold outside the grid's bandlimit this share of their power:",
            )
    return result.coefficients


def project(values: Float[ArrayLike, "n n_theta n_phi channels"], bandlimit: int) -> Projection:
    """The part below `bandlimit` of signals on a grid, and the fraction of power that is cut.

    Raises:
        InvalidArgumentError: if `bandlimit` is above that of the grid.
    """
    values = check_array("values", values, rank=4)
    chosen = _grid_of(values.shape[1:3])
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    if bandlimit > chosen.bandlimit:
        raise InvalidArgumentError("bandlimit", bandlimit, range(1, chosen.bandlimit + 1), "the grid has no more")
    dtype = precision.working_dtype(values)
    basis = (_synthesis(chosen, bandlimit) * chosen.weights[..., None]).astype(dtype)
    with precision.scope(dtype):
        xp = jnp if isinstance(values, jax.Array) else np
        values = values.astype(dtype)
        c = _multiply("tpk,ntpc->nkc", basis, values)
        # Rounding must not pass for power: what is lost is measured on the remainder, not as a difference of powers.
        rest = values - _multiply("tpk,nkc->ntpc", _synthesis(chosen, bandlimit).astype(dtype), c)
        weights = chosen.weights.astype(dtype)
        lost, total = (_multiply("tp,ntpc->nc", weights, f * f) for f in (rest, values))
        return Projection(c, xp.where(total > 0, lost / xp.where(total > 0, total, 1), 0))


def _grid_of(shape: tuple[int, ...]) -> SphereGrid:
    rings, azimuths = shape
    if azimuths == 2 * rings - 1:
        return gauss_legendre(rings)
    raise ShapeError("values", shape, "a grid of shape (B, 2B - 1)")


@lru_cache(maxsize=64)
def _synthesis(grid: SphereGrid, bandlimit: int) -> np.ndarray:
    """Y_k at the points of the grid, (n_θ, n_φ, bandlimit²)."""
    basis = polynomials(grid.points, bandlimit)
    basis.flags.writeable = False
    return basis


def _multiply(subscripts: str, a: ArrayLike, b: ArrayLike) -> ArrayLike:
    if isinstance(a, jax.Array) or isinstance(b, jax.Array):
        return jnp.einsum(subscripts, a, b, precision=jax.lax.Precision.HIGHEST)
    return np.einsum(subscripts, a, b, optimize=True)


_CHUNK = 1 << 22  # numbers held at once for one block


def wigner(R: Float[ArrayLike, "*batch 3 3"], bandlimit: int) -> tuple[Float[ArrayLike, "*batch _ _"], ...]:
    """The blocks D^0(R), .., D^{bandlimit-1}(R) of orthogonal matrices R, each (..., 2l + 1, 2l + 1).

    Rows and columns are ordered m = -l .. l. Accurate to 1e-13 in float64 at bandlimits up to 32.

    >>> wigner(np.eye(3), 2)[1].round(12) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    R = _checked("R", R)
    batch = R.shape[:-2]
    R = R.reshape((-1, 3, 3))
    with precision.scope(R.dtype):
        blocks = [_block(R, l) for l in range(bandlimit)]
        return tuple(b.reshape((*batch, *b.shape[1:])) for b in blocks)


def _block(R: ArrayLike, l: int) -> ArrayLike:
    grid = gauss_legendre(l + 1)
    points = grid.points.reshape(-1, 3)
    here = slice(l * l, (l + 1) ** 2)
    analysis = (polynomials(points, l + 1)[:, here] * grid.weights.reshape(-1, 1)).astype(R.dtype)
    points = points.astype(R.dtype)
    size = max(1, _CHUNK // (len(points) * (l + 1) ** 2))
    parts = []
    for start in range(0, len(R), size):
        moved = _multiply("rij,pj->rpi", R[start : start + size], points)
        parts.append(_multiply("rpa,pb->rab", polynomials(moved, l + 1)[..., here], analysis))
    return jnp.concatenate(parts) if isinstance(R, jax.Array) else np.concatenate(parts)


def rotate(
    c: Float[ArrayLike, "n harmonics channels"], R: Float[ArrayLike, "*rotations 3 3"]
) -> Float[ArrayLike, "*rotations n harmonics channels"]:
    """Signals rotated by R: the coefficients of x ↦ f(R⁻¹x).

    Args:
        c: Coefficients, (N, B², C).
        R: An orthogonal matrix (3, 3), or many (K, 3, 3), which rotate every signal: (K, N, B², C). Determinant -1 is
            allowed: R = -1 maps c_lm to (-1)^l c_lm.

    Raises:
        InvalidArgumentError: if R is not orthogonal.

    >>> quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])   # x to y
    >>> c = np.zeros((1, 4, 1)); c[0, 3] = 1                                       # Y_{1,1}, along x
    >>> rotate(c, quarter)[0, :, 0].round(12) + 0.0
    array([0., 1., 0., 0.])
    """
    c, bandlimit = check_coefficients("c", c)
    R = _checked("R", R)
    with precision.scope(c.dtype):
        if isinstance(c, jax.Array) or isinstance(R, jax.Array):
            c, R = jnp.asarray(c), jnp.asarray(R, c.dtype)
        else:
            R = R.astype(c.dtype)
        xp = jnp if isinstance(c, jax.Array) else np
        blocks = wigner(R, bandlimit)
        parts = [_multiply("...ab,nbc->...nac", block, c[:, l * l : (l + 1) ** 2]) for l, block in enumerate(blocks)]
        return xp.concatenate(parts, axis=-2)


def _checked(name: str, R: ArrayLike) -> ArrayLike:
    """`R` (..., 3, 3), if its matrices are orthogonal; raises otherwise."""
    R = check_array(name, R, min_rank=2)
    if R.shape[-2:] != (3, 3):
        raise ShapeError(name, R.shape, "3×3 matrices")
    if not precision.is_traced(R):
        check_rotations(name, np.asarray(R), reflections=True)
    return R
