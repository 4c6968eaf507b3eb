"""Between harmonic coefficients and values on grids: f(x) = Σ_lm c_lm Y_lm(x), c_lm = ∫ f(x) Y_lm(x) dx."""

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
from equitangents.sphere.checks import check_bandlimit, check_coefficients
from equitangents.sphere.grids import SphereGrid, driscoll_healy, gauss_legendre
from equitangents.sphere.grids import grid as make_grid
from equitangents.sphere.harmonics import polynomials
from equitangents.validation import check_array

_TOLERANCE = {"float32": 1e-8, "float64": 1e-20}  # relative power outside the bandlimit that counts as rounding


@dataclass(frozen=True)
class Projection:
    """`coefficients` (N, B², C) of what remains below a bandlimit, `lost_power` (N, C) the part of ∫ f² that does not.

    `lost_power` is relative to ∫ f², which the grid's quadrature measures; for a signal that the grid does not resolve
    it is an estimate.
    """

    coefficients: Float[ArrayLike, "n harmonics channels"]
    lost_power: Float[ArrayLike, "n channels"]


def evaluate(
    c: Float[ArrayLike, "n harmonics channels"], x: Float[ArrayLike, "points 3"]
) -> Float[ArrayLike, "n points channels"]:
    """Values of signals at any unit vectors x."""
    c, bandlimit = check_coefficients("c", c)
    x = check_array("x", x, shape=(None, 3))
    with precision.scope(c.dtype):
        if isinstance(c, jax.Array) or isinstance(x, jax.Array):
            return _multiply("pk,nkc->npc", polynomials(jnp.asarray(x, c.dtype), bandlimit), jnp.asarray(c))
        return _multiply("pk,nkc->npc", polynomials(x, bandlimit).astype(c.dtype), c)


def to_grid(
    c: Float[ArrayLike, "n harmonics channels"], grid: str = "gauss-legendre", bandlimit: int | None = None
) -> Float[ArrayLike, "n n_theta n_phi channels"]:
    """Values of signals on a grid.

    Args:
        c: Coefficients.
        grid: "gauss-legendre", of shape (B, 2B - 1), or "driscoll-healy", of shape (2B, 2B).
        bandlimit: B of the grid, at least that of the coefficients, which it is by default.

    >>> c = np.zeros((1, 4, 1)); c[0, 0] = 2 * np.sqrt(np.pi)
    >>> to_grid(c)[0, :, :, 0]
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    c, own = check_coefficients("c", c)
    chosen = make_grid(grid, own if bandlimit is None else check_bandlimit("bandlimit", bandlimit))
    if chosen.bandlimit < own:
        raise InvalidArgumentError("bandlimit", bandlimit, f"at least {own}, that of the coefficients")
    basis = _synthesis(chosen, own)
    with precision.scope(c.dtype):
        return _multiply("tpk,nkc->ntpc", basis.astype(c.dtype), c)


def from_grid(values: Float[ArrayLike, "n n_theta n_phi channels"]) -> Float[ArrayLike, "n harmonics channels"]:
    """Coefficients of signals given on a grid that resolves them; the grid is known by its shape.

    A signal with power outside the grid's bandlimit is refused (`project` truncates it); traced arrays are not checked.

    Raises:
        ShapeError: if the shape is neither (B, 2B - 1) nor (2B, 2B).
        InvalidArgumentError: if a signal is not bandlimited.
    """
    values = check_array("values", values, rank=4)
    chosen = _grid_of(values.shape[1:3])
    result = project(values, chosen.bandlimit)
    if not precision.is_traced(values):
        lost = float(np.max(np.asarray(result.lost_power)))
        if lost > _TOLERANCE[precision.working_dtype(values).name]:
            raise InvalidArgumentError(
                "values",
                lost,
                "none",
                "use a finer grid, or sphere.project to truncate",
                verb="hold outside the grid's bandlimit this share of their power:",
            )
    return result.coefficients


def project(values: Float[ArrayLike, "n n_theta n_phi channels"], bandlimit: int) -> Projection:
    """The part below `bandlimit` of signals given on a grid, and how much power it lacks.

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
    if azimuths == rings and rings % 2 == 0:
        return driscoll_healy(rings // 2)
    raise ShapeError("values", shape, "a grid of shape (B, 2B - 1) or (2B, 2B)")


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
