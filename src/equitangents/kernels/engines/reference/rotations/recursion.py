"""Kernels of one tile of pairs of signals: the recursion at every relative rotation, the readout, the layers after it.

Signals are laid out (B², C, N), scaled so that K(Q) = c'ᵀ D(Q) c at the input. The constant part (l = 0) does not
depend on Q and is kept apart, so that signals without directions are at an exact distance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents.kernels.angular import Both, covariance, of_covariance, vanishing
from equitangents.kernels.engines.reference.rotations.fields import Sphere, sphere_angles
from equitangents.kernels.engines.reference.rotations.pointwise import (
    Variances,
    above_rounding,
    after,
    moments,
    run,
    variances,
)
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import rings as correlation
from equitangents.kernels.rotations.program import RotationSections
from equitangents.kernels.rotations.rings import Rings


class Side(NamedTuple):
    """Signals of one side of a tile, (B², C, N), and their variances after the readout where these are needed."""

    c: Any
    pooled: Variances | None


class Readout(NamedTuple):
    """Values of pairs after the readout, each (P,): K, Θ, E (see `kernels.angular`), variances before it."""

    k: Any
    theta: Any
    e: Any
    first: Variances
    second: Variances


def scaled(program: RotationSections, x: Any) -> Any:
    """Signals (N, B², C) as (B², C, N), scaled for the input kernel; for fields on the sphere without 1/4π."""
    norm = x.shape[-1] if program.sphere else 4 * jnp.pi * x.shape[-1]
    return jnp.moveaxis(x, 0, -1) / jnp.sqrt(jnp.asarray(norm, x.dtype))


def prepare(program: RotationSections, samples: Rings | Sphere, c: Any) -> Side:
    """Moments of signals c, (B², C, N)."""
    if not has_dual(program.vector):
        return Side(c, None)
    own = readout(program, samples, c, c, blocks=False)
    return Side(c, Variances(own.k, own.first.mean))


def listed(program: RotationSections, samples: Rings | Sphere, a: Side, b: Side) -> tuple[Any, Any]:
    """(NNGP, NTK) of the pairs (a_p, b_p), each (P,)."""
    return _kernels(program, samples, a, b, blocks=False)


def block(program: RotationSections, samples: Rings | Sphere, a: Side, b: Side) -> tuple[Any, Any]:
    """(NNGP, NTK) between all of a and all of b, each (N1, N2)."""
    n1, n2 = a.c.shape[-1], b.c.shape[-1]
    return tuple(v.reshape(n1, n2) for v in _kernels(program, samples, a, b, blocks=True))


def diagonal(program: RotationSections, samples: Rings | Sphere, a: Side) -> tuple[Any, Any]:
    """(NNGP, NTK) of each signal with itself, each (N,)."""
    return _kernels(program, samples, a, a, blocks=False)


def _kernels(program: RotationSections, samples: Rings | Sphere, a: Side, b: Side, blocks: bool) -> tuple[Any, Any]:
    k, theta, e, *_ = readout(program, samples, a.c, b.c, blocks)
    if not has_dual(program.vector):
        return _affine(program.vector, k, theta)
    assert a.pooled is not None
    assert b.pooled is not None
    return after_readout(program, k, theta, e, *_spread(a.pooled, b.pooled, blocks))


def after_readout(
    program: RotationSections, k: Any, theta: Any, e: Any, w1: Variances, w2: Variances
) -> tuple[Any, Any]:
    """(NNGP, NTK) after the layers that follow the readout, of pairs with these variances there, each (P,)."""
    if program.readout == "pool":
        e = of_covariance(k, variances(w1, w2))
    m1, m2 = moments(program.vector, w1), moments(program.vector, w2)
    e, theta = run(program.vector, e, theta, m1, m2)
    return covariance(e, variances(after(m1), after(m2))), theta


def _spread(v1: Variances, v2: Variances, blocks: bool) -> tuple[Variances, Variances]:
    """Values by input as values by pair."""
    if not blocks:
        return v1, v2
    n1, n2 = len(v1.q), len(v2.q)
    return Variances(*(jnp.repeat(x, n2) for x in v1)), Variances(*(jnp.tile(x, n1) for x in v2))


def readout(program: RotationSections, samples: Rings | Sphere, a: Any, b: Any, blocks: bool) -> Readout:
    """Pairs of a and b, (B², C, N), after pooling or flattening; E is that of the readout only after flattening."""
    if isinstance(samples, Sphere):
        if blocks:
            a, b = _all_pairs(a, b)
        e, theta, v1, v2 = sphere_angles(program, samples, a, b)
        return Readout(covariance(e, variances(v1, v2)), theta, e, v1, v2)
    v1, v2 = _spread(_variance(a), _variance(b), blocks)
    at = variances(v1, v2)
    m1, m2 = moments(program.field, v1), moments(program.field, v2)
    v1, v2 = after(m1), after(m2)
    if program.readout == "flatten":
        e = vanishing(_distance(a, b, at, blocks).sum(axis=0), at)
        e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
    else:
        e, theta = _haar_mean(program, samples, a, b, blocks, m1, m2, at)
    return Readout(covariance(e, variances(v1, v2)), theta, e, v1, v2)


def _distance(a: Any, b: Any, at: Both, blocks: bool) -> Any:
    """Squared distances of coefficients (rows, C, N) of equal variance, summed over channels, (rows, P)."""
    if not blocks:
        return jnp.sum(at.gap(a, b) ** 2, axis=1)
    first, second = (v.reshape(a.shape[-1], b.shape[-1]) for v in at.to)
    return jnp.sum((first * a[..., :, None] - second * b[..., None, :]) ** 2, axis=1).reshape(len(a), -1)


def _haar_mean(
    program: RotationSections, rings: Any, a: Any, b: Any, blocks: bool, m1: Any, m2: Any, at: Both
) -> tuple[Any, Any]:
    pairs = m1.q[0].shape[-1]
    multiply = correlation.block_products if blocks else correlation.products
    shared, scanned = correlation.prepared(rings, multiply(a, b, program.bandlimit))
    constant = _distance(a[:1], b[:1], at, blocks)[0]
    p1, p2 = _spread(_directional(a), _directional(b), blocks)
    total = at.a**2 * p1.q + at.b**2 * p2.q

    def add(sums: tuple[Any, Any], ring: dict[str, Any]) -> tuple[tuple[Any, Any], None]:
        k = correlation.ring_values(rings, shared, ring, pairs)
        e = vanishing(constant + above_rounding(total - 2 * k, total), at)
        e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
        weights = ring["weights"][:, None]
        return (sums[0] + jnp.sum(weights * e, axis=0), sums[1] + jnp.sum(weights * theta, axis=0)), None

    zero = jnp.zeros((pairs,), a.dtype)
    (e, theta), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), scanned)
    return e, theta


def _variance(c: Any) -> Variances:
    q = jnp.sum(c * c, axis=(0, 1))
    return Variances(q, jnp.zeros_like(q))


def _directional(c: Any) -> Variances:
    return _variance(c[1:])


def _all_pairs(a: Any, b: Any) -> tuple[Any, Any]:
    return jnp.repeat(a, b.shape[-1], axis=-1), jnp.tile(b, a.shape[-1])


def _affine(ops: tuple[Op, ...], k: Any, theta: Any) -> tuple[Any, Any]:
    for affine in (op.affine for op in ops):
        assert affine is not None
        k = affine.W_var * k + affine.b_var
        theta = k + affine.W_var * theta
    return k, theta
