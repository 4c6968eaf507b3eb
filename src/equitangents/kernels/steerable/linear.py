"""Linear operations of steerable programs: filters over points, maps at points, means.

With weights N(0, 1) on each of B' equivariant kernels κ that end in an irrep, and n copies going in,
f' = W/√(B' n) Σ w κ f, so that K' = W²/B' Σ_κ κ K κ'ᵀ, and Θ' = K' + W²/B' Σ_κ κ Θ κ'ᵀ.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.steerable.fields import Field, Fields, Side
from equitangents.kernels.steerable.program import Filter, Kernels, PointMap, filter_kernels
from equitangents.steerable import Features
from equitangents.steerable.angular import AngularKernel, all_coefficients
from equitangents.steerable.harmonics import direction_harmonics, directions_and_lengths, rings
from equitangents.steerable.irrep import Irrep


@lru_cache(maxsize=256)
def point_kernels(into: Features, out: Features) -> Kernels:
    """Maps that commute with the group, κ of frequency 0, by (irrep out, irrep in)."""
    return filter_kernels(into, out, 0)


def count(kernels: Kernels, out: Irrep) -> int:
    """Number of kernels that end in an irrep."""
    return sum(len(found) for (b, _), found in kernels.items() if b == out)


class Geometry(NamedTuple):
    """For all pairs of points i, j: harmonics of the direction of x_j - x_i (P, P, harmonics), and rings (P, P, R).

    Where x_j = x_i there is no direction, and harmonics of frequencies from 1 on are zero, as κ(0) = ρ'(g) κ(0) ρ(g)ᵀ.
    """

    harmonics: jax.Array
    rings: ArrayLike
    largest: int


def geometry(points: ArrayLike, largest: int, radii: tuple[float, ...], width: float) -> Geometry:
    """Harmonics and rings of kernels of frequencies up to `largest`, at points (P, n)."""
    unit, length = directions_and_lengths(points[None, :, :] - points[:, None, :])
    first, *others = direction_harmonics(unit, largest)
    there = (length > 0).astype(points.dtype)[..., None]
    return Geometry(jnp.concatenate([first, *(h * there for h in others)], -1), rings(length, radii, width), largest)


def filter_matrices(kernels: tuple[AngularKernel, ...], at: Geometry) -> jax.Array:
    """κ(x_j - x_i) for all kernels times all rings: (K, R, P, d', P, d), i the first point, j the second."""
    coefficients = jnp.asarray(all_coefficients(kernels, at.largest), at.rings.dtype)
    angular = jnp.einsum("kabm,ijm->kijab", coefficients, at.harmonics, precision="highest")
    return jnp.einsum("kijab,ijr->kriajb", angular, at.rings, precision="highest")


def largest_frequency(kernels: Kernels) -> int:
    """The largest frequency of any kernel."""
    return max(k.frequency for found in kernels.values() for k in found)


def filtered(op: Filter, fields: Fields, one: Side, other: Side) -> Fields:
    """The kernels after a `Filter`."""
    kernels = op.kernels
    largest = largest_frequency(kernels)
    at1, at2 = (geometry(side.points, largest, op.radii, op.width) for side in (one, other))
    sums: dict[Irrep, list[Field]] = {kind: [] for kind in op.out.irreps}
    for (out, into), found in kernels.items():
        left, right = filter_matrices(found, at1), filter_matrices(found, at2)
        k, theta = fields[into]
        sums[out].append(Field(*(None if f is None else _through(left, f, right) for f in (k, theta))))
    return {kind: _affine(op, kind, parts, count(kernels, kind) * len(op.radii)) for kind, parts in sums.items()}


def mapped(op: PointMap, fields: Fields) -> Fields:
    """The kernels after a `PointMap`."""
    kernels = point_kernels(op.into, op.out)
    sums: dict[Irrep, list[Field]] = {kind: [] for kind in op.out.irreps}
    for (out, into), found in kernels.items():
        maps = jnp.stack([jnp.asarray(k.coefficients[..., 0], fields[into].k.dtype) for k in found])
        sums[out].append(
            Field(
                *(
                    None if f is None else jnp.einsum("kab,ibjd,kcd->iajc", maps, f, maps, precision="highest")
                    for f in fields[into]
                )
            )
        )
    return {kind: _affine(op, kind, parts, count(kernels, kind)) for kind, parts in sums.items()}


def averaged(fields: Fields, one: Side, other: Side) -> Fields:
    """Means over the points that exist, (1, d, 1, d)."""
    a, b = (side.there / jnp.maximum(jnp.sum(side.there), 1) for side in (one, other))
    return {kind: Field(*(None if f is None else _mean(a, f, b) for f in field)) for kind, field in fields.items()}


def _mean(a: ArrayLike, f: ArrayLike, b: ArrayLike) -> ArrayLike:
    return jnp.einsum("i,iajb,j->ab", a, f, b, precision="highest")[None, :, None, :]


def _through(left: jax.Array, field: ArrayLike, right: jax.Array) -> ArrayLike:
    """Σ_κ κ F κ'ᵀ."""
    kernels, radii, p1, a, _, b = left.shape
    p2 = right.shape[2]
    flat = left.reshape((kernels * radii, p1 * a, p1 * b))
    half = jnp.einsum("kxm,my->xky", flat, field.reshape((p1 * b, p2 * b)), precision="highest")
    other = jnp.swapaxes(right.reshape((kernels * radii, p2 * a, p2 * b)), 0, 1)
    both = half.reshape((p1 * a, -1)) @ other.reshape((p2 * a, -1)).T
    return both.reshape((p1, a, p2, a))


def _affine(op: Filter | PointMap, kind: Irrep, parts: list[Field], kernels: int) -> Field:
    scale = op.W_var / kernels
    bias = op.b_var if kind.is_trivial else 0.0
    k = scale * sum(part.k for part in parts) + bias
    if parts[0].theta is None:
        return Field(k, k)
    return Field(k, k + scale * sum(part.theta for part in parts))
