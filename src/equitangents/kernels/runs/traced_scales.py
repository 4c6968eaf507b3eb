"""Kernels of inputs of any scale inside JAX programs, where norms are known only when the program runs.

What differs from arrays whose values are known: nothing is computed in another precision, only homogeneous networks
without biases have their inputs scaled, and what no number can hold is infinite or zero without an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.runs.results import Values
from equitangents.kernels.scales import BITS, Law

_STEP = 2 * BITS  # inputs are scaled by powers of 2 to the power of this

Run = Callable[[ArrayLike, ArrayLike | None], Values]


def all_pairs(law: Law, near: Run, far: Run | None, x1: ArrayLike, x2: ArrayLike | None) -> Values:
    """(NNGP, NTK) between x1 and x2 (None: x1 with itself) by `near`, and by `far` where norms differ much.

    Both give arrays (N1, N2, ...). `far` is None where norms may differ as they like.
    """
    if 0 in (x1.size, 1 if x2 is None else x2.size):
        return near(x1, x2)
    norms1 = _exponents(x1)
    norms2 = norms1 if x2 is None else _exponents(x2)
    zero1, zero2 = (jax.lax.stop_gradient(jnp.all(_flat(x1 if x is None else x) == 0, axis=1)) for x in (None, x2))
    if x2 is None:
        zero2 = zero1
    if law.homogeneous and not law.biased:
        nngp, ntk = _scaled(near, x1, x2, norms1, norms2, zero1, zero2)
    elif far is None:
        nngp, ntk = near(x1, x2)
    else:
        nngp, ntk = _selected(law, near, far, x1, x2, norms1, norms2, zero1, zero2)
    if not law.vanishes:
        return nngp, ntk
    zero = _spread(zero1[:, None] | zero2, nngp)
    return jnp.where(zero, 0, nngp), jnp.where(zero, 0, ntk)


def _spread(pairs: jax.Array, values: jax.Array) -> jax.Array:
    """What is known of pairs of inputs, (N1, N2), beside values (N1, N2, ...)."""
    return pairs.reshape(pairs.shape + (1,) * (values.ndim - 2))


@jax.custom_batching.custom_vmap
def _anywhere(flags: jax.Array) -> jax.Array:
    """Whether any of the flags is set; under vmap one answer for the whole batch.

    A choice made for the batch stays a choice. Made for each member it would be both sides for all of them.
    """
    return jnp.any(flags)


@_anywhere.def_vmap
def _(axis_size: int, in_batched: list[bool], flags: jax.Array) -> tuple[jax.Array, bool]:
    return _anywhere(flags), False


def where_missing(found: Values, other: Callable[[], Values]) -> Values:
    """`found`, or the other (NNGP, NTK) where any of its NNGP is NaN."""
    missing = jnp.isnan(found[0])
    instead = jax.lax.cond(_anywhere(missing), other, lambda: found)
    return jnp.where(missing, instead[0], found[0]), jnp.where(missing, instead[1], found[1])


def _flat(x: ArrayLike) -> ArrayLike:
    return x.reshape(len(x), -1)


def _exponents(x: ArrayLike) -> jax.Array:
    """floor(log2) of each input's root mean square, (N,), int32; 0 for zeros."""
    most = jnp.max(jnp.abs(_flat(jax.lax.stop_gradient(x))), axis=1, keepdims=True)
    unit = jnp.where(most > 0, most, 1)
    mean = jnp.mean((_flat(jax.lax.stop_gradient(x)) / unit) ** 2, axis=1)
    log = jnp.log2(unit[:, 0]) + jnp.log2(jnp.where(mean > 0, mean, 1)) / 2
    return jnp.where(most[:, 0] > 0, jnp.floor(log), 0).astype(jnp.int32)


def _times(x: ArrayLike, exponents: jax.Array) -> ArrayLike:
    """x · 2^exponents, in two steps, each of which is a number."""
    shape = (-1,) + (1,) * (x.ndim - 1)
    half = exponents // 2
    one, other = (jnp.exp2(e.astype(x.dtype)).reshape(shape) for e in (half, exponents - half))
    return x * one * other


def _scaled(
    near: Run,
    x1: ArrayLike,
    x2: ArrayLike | None,
    norms1: jax.Array,
    norms2: jax.Array,
    zero1: jax.Array,
    zero2: jax.Array,
) -> Values:
    """Powers of two are taken out: of all inputs alike where norms differ little.

    Else of each input to a step of a ladder, and to one of a ladder half a step further: two inputs of nearly equal
    norm are on the same step of one of them.
    """

    def run(first: jax.Array, second: jax.Array) -> Values:
        b = None if x2 is None else _times(x2, -second)
        values = near(_times(x1, -first), b)
        exponents = first[:, None] + second
        half = exponents // 2
        one, other = (_spread(jnp.exp2(e.astype(x1.dtype)), values[0]) for e in (half, exponents - half))
        nngp, ntk = (v * one * other for v in values)
        return nngp, ntk

    low = jnp.minimum(jnp.min(jnp.where(zero1, 9999, norms1)), jnp.min(jnp.where(zero2, 9999, norms2)))
    high = jnp.maximum(jnp.max(jnp.where(zero1, -9999, norms1)), jnp.max(jnp.where(zero2, -9999, norms2)))

    alike = high - low <= _STEP
    common = jnp.where(high > -9999, high, 0)

    def rungs(half: int) -> tuple[jax.Array, jax.Array]:
        a, b = (_STEP * ((n + half) // _STEP) - half for n in (norms1, norms2))
        return a, b

    # The run that every call needs stays outside the choice, so that it is compiled once.
    first = run(*(jnp.where(alike, common, rung) for rung in rungs(0)))

    def ladders(values: Values) -> Values:
        a, b = rungs(_STEP // 2)
        same = _spread((a[:, None] == b) & ~alike, values[0])
        nngp, ntk = (jnp.where(same, new, old) for new, old in zip(run(a, b), values, strict=True))
        return nngp, ntk

    return jax.lax.cond(_anywhere(~alike), ladders, lambda values: values, first)


def _selected(
    law: Law,
    near: Run,
    far: Run,
    x1: ArrayLike,
    x2: ArrayLike | None,
    norms1: jax.Array,
    norms2: jax.Array,
    zero1: jax.Array,
    zero2: jax.Array,
) -> Values:
    """`far` where norms differ much, those of what the first nonlinearity reads."""

    def keys(norms: jax.Array, zero: jax.Array) -> jax.Array:
        floor = jnp.where(zero, -9999.0, norms.astype(x1.dtype))
        if law.constant == 0 or law.signal == 0:
            return floor
        return jnp.logaddexp2(2 * floor, jnp.asarray(math.log2(law.constant) - math.log2(law.signal), x1.dtype)) / 2

    k1, k2 = keys(norms1, zero1), keys(norms2, zero2)
    different = jnp.abs(k1[:, None] - k2) > _STEP

    nngp, ntk = near(x1, x2)
    values = nngp, ntk

    def resolved(values: Values) -> Values:
        chosen = _spread(different, values[0])
        nngp, ntk = (jnp.where(chosen, new, old) for new, old in zip(far(x1, x2), values, strict=True))
        return nngp, ntk

    return jax.lax.cond(_anywhere(different), resolved, lambda values: values, values)
