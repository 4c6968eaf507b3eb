"""Kernels of one tile of pairs of signals: the recursion at every relative rotation, the readout, the layers after it.

Signals are laid out (B², C, N), scaled so that K(Q) = c'ᵀ D(Q) c at the input. The constant part (l = 0) does not
depend on Q and is kept apart, so that signals without directions are at an exact distance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents.kernels.engines.reference.carry import COVARIANCE, DISTANCE, Carry
from equitangents.kernels.engines.reference.rotations.fields import Sphere, sphere_distances
from equitangents.kernels.engines.reference.rotations.pointwise import Variances, after, moments, run, settled
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.program import Affine, Op
from equitangents.kernels.rotations import rings as correlation
from equitangents.kernels.rotations.program import RotationProgram
from equitangents.kernels.rotations.rings import Rings


class Side(NamedTuple):
    """Signals of one side of a tile, (B², C, N), and their variances after the readout where these are needed."""

    c: Any
    pooled: Variances | None


class Readout(NamedTuple):
    """What is known of pairs after the readout, each (P,): K, Θ, the distance before averaging, variances before it."""

    k: Any
    theta: Any
    d: Any
    first: Variances
    second: Variances


def scaled(program: RotationProgram, x: Any) -> Any:
    """Signals (N, B², C) as (B², C, N), scaled for the input kernel; for fields on the sphere without 1/4π."""
    norm = x.shape[-1] if program.sphere else 4 * jnp.pi * x.shape[-1]
    return jnp.moveaxis(x, 0, -1) / jnp.sqrt(jnp.asarray(norm, x.dtype))


def prepare(program: RotationProgram, samples: Rings | Sphere, c: Any) -> Side:
    """What is known of signals c, (B², C, N), alone."""
    if not has_dual(program.vector):
        return Side(c, None)
    own = readout(program, samples, c, c, blocks=False)
    return Side(c, Variances(own.k, own.first.mean))


def listed(
    program: RotationProgram, samples: Rings | Sphere, a: Side, b: Side, carry: Carry = DISTANCE
) -> tuple[Any, Any]:
    """(NNGP, NTK) of the pairs (a_p, b_p), each (P,)."""
    return _kernels(program, samples, a, b, blocks=False, carry=carry)


def block(
    program: RotationProgram, samples: Rings | Sphere, a: Side, b: Side, carry: Carry = DISTANCE
) -> tuple[Any, Any]:
    """(NNGP, NTK) between all of a and all of b, each (N1, N2)."""
    n1, n2 = a.c.shape[-1], b.c.shape[-1]
    return tuple(v.reshape(n1, n2) for v in _kernels(program, samples, a, b, blocks=True, carry=carry))


def diagonal(program: RotationProgram, samples: Rings | Sphere, a: Side) -> tuple[Any, Any]:
    """(NNGP, NTK) of each signal with itself, each (N,)."""
    return _kernels(program, samples, a, a, blocks=False, carry=DISTANCE)


def _kernels(
    program: RotationProgram, samples: Rings | Sphere, a: Side, b: Side, blocks: bool, carry: Carry
) -> tuple[Any, Any]:
    k, theta, d, *_ = readout(program, samples, a.c, b.c, blocks, carry)
    if not has_dual(program.vector):
        return _affine(program.vector, k, theta)
    assert a.pooled is not None
    assert b.pooled is not None
    return after_readout(program, k, theta, d, *_spread(a.pooled, b.pooled, blocks), carry)


def after_readout(
    program: RotationProgram, k: Any, theta: Any, d: Any, w1: Variances, w2: Variances, carry: Carry = DISTANCE
) -> tuple[Any, Any]:
    """(NNGP, NTK) after the layers that follow the readout, of pairs with these variances there, each (P,)."""
    if carry is COVARIANCE:
        d = k
    elif program.readout == "pool":
        d = settled(w1.q + w2.q - 2 * k, w1.q + w2.q)
    m1, m2 = moments(program.vector, w1), moments(program.vector, w2)
    d, theta = run(program.vector, d, theta, m1, m2, carry)
    return carry.covariance(d, after(m1).q, after(m2).q), theta


def _spread(v1: Variances, v2: Variances, blocks: bool) -> tuple[Variances, Variances]:
    """Values by input as values by pair."""
    if not blocks:
        return v1, v2
    n1, n2 = len(v1.q), len(v2.q)
    return Variances(*(jnp.repeat(x, n2) for x in v1)), Variances(*(jnp.tile(x, n1) for x in v2))


def readout(
    program: RotationProgram, samples: Rings | Sphere, a: Any, b: Any, blocks: bool, carry: Carry = DISTANCE
) -> Readout:
    """Pairs of a and b, (B², C, N), after pooling or flattening; `d` is that of the readout only after flattening."""
    if isinstance(samples, Sphere):
        if blocks:
            a, b = _all_pairs(a, b)
        d, theta, v1, v2 = sphere_distances(program, samples, a, b, carry)
        return Readout(carry.covariance(d, v1.q, v2.q), theta, d, v1, v2)
    v1, v2 = _spread(_variance(a), _variance(b), blocks)
    m1, m2 = moments(program.field, v1), moments(program.field, v2)
    v1, v2 = after(m1), after(m2)
    if program.readout == "flatten":
        first, second = (a[..., :, None], b[..., None, :]) if blocks else (a, b)
        d = _start(carry, first, second, (0, 1)).reshape(-1)
        d, theta = run(program.field, d, jnp.zeros_like(d), m1, m2, carry)
    else:
        d, theta = _haar_mean(program, samples, a, b, blocks, m1, m2, carry)
    return Readout(carry.covariance(d, v1.q, v2.q), theta, d, v1, v2)


def _start(carry: Carry, first: Any, second: Any, axes: Any) -> Any:
    """What is carried of coefficients, summed over `axes`."""
    return jnp.sum(first * second if carry is COVARIANCE else (first - second) ** 2, axis=axes)


def _haar_mean(
    program: RotationProgram, rings: Any, a: Any, b: Any, blocks: bool, m1: Any, m2: Any, carry: Carry
) -> tuple[Any, Any]:
    pairs = m1.q[0].shape[-1]
    multiply = correlation.block_products if blocks else correlation.products
    shared, scanned = correlation.prepared(rings, multiply(a, b, program.bandlimit))
    constant, p1, p2 = a[0], _directional(a), _directional(b)
    if blocks:
        d0 = _start(carry, constant[:, :, None], b[0][:, None, :], 0).reshape(-1)
        total = (p1[:, None] + p2[None]).reshape(-1)
    else:
        d0, total = _start(carry, constant, b[0], 0), p1 + p2

    def add(sums: tuple[Any, Any], ring: dict[str, Any]) -> tuple[tuple[Any, Any], None]:
        k = correlation.ring_values(rings, shared, ring, pairs)
        d = d0 + (k if carry is COVARIANCE else settled(total - 2 * k, total))
        d, theta = run(program.field, d, jnp.zeros_like(d), m1, m2, carry)
        weights = ring["weights"][:, None]
        return (sums[0] + jnp.sum(weights * d, axis=0), sums[1] + jnp.sum(weights * theta, axis=0)), None

    zero = jnp.zeros((pairs,), a.dtype)
    (d, theta), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), scanned)
    return d, theta


def _variance(c: Any) -> Variances:
    q = jnp.sum(c * c, axis=(0, 1))
    return Variances(q, jnp.zeros_like(q))


def _directional(c: Any) -> Any:
    return jnp.sum(c[1:] * c[1:], axis=(0, 1))


def _all_pairs(a: Any, b: Any) -> tuple[Any, Any]:
    return jnp.repeat(a, b.shape[-1], axis=-1), jnp.tile(b, a.shape[-1])


def _affine(ops: tuple[Op, ...], k: Any, theta: Any) -> tuple[Any, Any]:
    for op in ops:
        assert isinstance(op, Affine)
        k = op.W_var * k + op.b_var
        theta = k + op.W_var * theta
    return k, theta
