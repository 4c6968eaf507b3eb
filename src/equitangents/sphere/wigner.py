"""Rotations of signals: (ρ(R) f)(x) = f(R⁻¹x), with coefficients D(R) c.

D is the real orthogonal representation with Y(Rx) = D(R) Y(x), block-diagonal in the degree, and D(RS) = D(R) D(S).
Its blocks are D^l(R) = ∫ Y_l(Rx) Y_l(x)ᵀ dx, taken by exact quadrature: no angles, no singular rotations, and an
improper R (determinant -1) is as good as a proper one.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.sphere.checks import check_bandlimit, check_coefficients
from equitangents.sphere.grids import gauss_legendre
from equitangents.sphere.harmonics import polynomials
from equitangents.validation import check_array

_TOLERANCE = {"float32": 1e-4, "float64": 1e-8}  # of R Rᵀ = 1
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
    R = check_rotations("R", R)
    batch = R.shape[:-2]
    R = R.reshape((-1, 3, 3))
    xp = jnp if isinstance(R, jax.Array) else np
    with precision.scope(R.dtype):
        blocks = [_block(xp, R, l) for l in range(bandlimit)]
        return tuple(b.reshape((*batch, *b.shape[1:])) for b in blocks)


def _block(xp: ModuleType, R: ArrayLike, l: int) -> ArrayLike:
    grid = gauss_legendre(l + 1)
    points = grid.points.reshape(-1, 3)
    here = slice(l * l, (l + 1) ** 2)
    analysis = (polynomials(points, l + 1)[:, here] * grid.weights.reshape(-1, 1)).astype(R.dtype)
    points = points.astype(R.dtype)
    size = max(1, _CHUNK // (len(points) * (l + 1) ** 2))
    parts = []
    for start in range(0, len(R), size):
        moved = xp.einsum("rij,pj->rpi", R[start : start + size], points, **_precise(xp))
        parts.append(xp.einsum("rpa,pb->rab", polynomials(moved, l + 1)[..., here], analysis, **_precise(xp)))
    return xp.concatenate(parts)


def _precise(xp: ModuleType) -> dict[str, Any]:
    return {"optimize": True} if xp is np else {"precision": jax.lax.Precision.HIGHEST}


def rotate(
    c: Float[ArrayLike, "n harmonics channels"], R: Float[ArrayLike, "*rotations 3 3"]
) -> Float[ArrayLike, "*rotations n harmonics channels"]:
    """Signals turned by R: the coefficients of x ↦ f(R⁻¹x).

    Args:
        c: Coefficients, (N, B², C).
        R: An orthogonal matrix (3, 3), or many (K, 3, 3), which turn every signal: (K, N, B², C). Determinant -1 is
            allowed: R = -1 maps c_lm to (-1)^l c_lm.

    Raises:
        InvalidArgumentError: if R is not orthogonal.

    >>> quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])   # x to y
    >>> c = np.zeros((1, 4, 1)); c[0, 3] = 1                                       # Y_{1,1}, along x
    >>> rotate(c, quarter)[0, :, 0].round(12) + 0.0
    array([0., 1., 0., 0.])
    """
    c, bandlimit = check_coefficients("c", c)
    R = check_rotations("R", R)
    with precision.scope(c.dtype):
        if isinstance(c, jax.Array) or isinstance(R, jax.Array):
            c, R = jnp.asarray(c), jnp.asarray(R, c.dtype)
        else:
            R = R.astype(c.dtype)
        xp = jnp if isinstance(c, jax.Array) else np
        blocks = wigner(R, bandlimit)
        parts = [
            xp.einsum("...ab,nbc->...nac", block, c[:, l * l : (l + 1) ** 2], **_precise(xp))
            for l, block in enumerate(blocks)
        ]
        return xp.concatenate(parts, axis=-2)


def check_rotations(name: str, R: ArrayLike) -> ArrayLike:
    """`R` (..., 3, 3) if its matrices are orthogonal."""
    R = check_array(name, R, min_rank=2)
    if R.shape[-2:] != (3, 3):
        raise ShapeError(name, R.shape, "3×3 matrices")
    if not precision.is_traced(R):
        M = np.asarray(R)
        error = float(np.abs(np.einsum("...ij,...kj->...ik", M, M) - np.eye(3)).max())
        if not error <= _TOLERANCE[precision.working_dtype(R).name]:
            raise InvalidArgumentError(name, error, "orthogonal matrices", verb="is off R Rᵀ = 1 by")
    return R
