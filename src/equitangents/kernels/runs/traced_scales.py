"""Kernels of inputs of any scale inside JAX programs, where norms are known only when the program runs.

What differs from arrays whose values are known: nothing is computed in another precision, only homogeneous networks
without biases have their inputs scaled, and what no number can hold is infinite or zero without an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, DType
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
    # of both at once: each step that is one XLA kernel less compiles so much sooner
    norms, zero = _norms(_flat(x1) if x2 is None else jnp.concatenate([_flat(x1), _flat(x2)]))
    zero1, zero2 = zero[: len(x1)], zero[-len(x1 if x2 is None else x2) :]
    if law.homogeneous and not law.biased:
        nngp, ntk = _scaled(near, x1, x2, norms, zero)
    elif far is None:
        nngp, ntk = near(x1, x2)
    else:
        nngp, ntk = _selected(law, near, far, x1, x2, norms, zero)
    if not law.vanishes:
        return nngp, ntk
    zero = _spread_over(zero1[:, None] | zero2, nngp.ndim)
    return jnp.where(zero, 0, nngp), jnp.where(zero, 0, ntk)


@jax.custom_batching.custom_vmap
def _anywhere(flags: jax.Array) -> jax.Array:
    """Whether any of the flags is set; under vmap one answer for the whole batch.

    A choice made for the batch stays a choice. Made for each member it would be both sides for all of them.
    """
    return jnp.any(flags)


@_anywhere.def_vmap
def _(axis_size: int, in_batched: list[bool], flags: jax.Array) -> tuple[jax.Array, bool]:
    return _anywhere(flags), False


def _flat(x: ArrayLike) -> ArrayLike:
    return x.reshape(len(x), -1)


def _norms(x: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """(floor(log2) of each input's root mean square, int32, 0 for zeros; whether it is zero), each (N,), of (N, …)."""
    x = jax.lax.stop_gradient(x)
    most = jnp.max(jnp.abs(x), axis=1)
    unit = _exponent(most)
    mean = jnp.mean(_scaled_by(x, -unit) ** 2, axis=1)  # from 1/n to 4
    return jnp.where(most > 0, unit + (_exponent(mean) >> 1), 0), most == 0


def _exponent(x: jax.Array) -> jax.Array:
    """floor(log2 x) of positive numbers, int32, from their bits, which compile sooner than a logarithm."""
    bits = jax.lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}") >> jnp.finfo(x.dtype).nmant
    return bits.astype(jnp.int32) - jnp.finfo(x.dtype).maxexp + 1


def _power(exponents: jax.Array, dtype: DType) -> jax.Array:
    """2^exponents, normal numbers, written as bits."""
    whole = exponents.astype(f"int{8 * np.dtype(dtype).itemsize}") + jnp.finfo(dtype).maxexp - 1
    return jax.lax.bitcast_convert_type(whole << jnp.finfo(dtype).nmant, dtype)


def _scaled_by(x: ArrayLike, exponents: jax.Array) -> jax.Array:
    """x · 2^exponents of each input, in two steps, each of which is a number."""
    half = exponents >> 1
    one, other = (_spread_over(_power(part, x.dtype), x.ndim) for part in (half, exponents - half))
    return jnp.asarray(x) * one * other


def _spread_over(values: jax.Array, axes: int) -> jax.Array:
    """Values beside an array of so many axes, of which they have the first."""
    return values.reshape(values.shape + (1,) * (axes - values.ndim))


def _scaled(near: Run, x1: ArrayLike, x2: ArrayLike | None, norms: jax.Array, zero: jax.Array) -> Values:
    """Powers of two are taken out: of all inputs alike where norms differ little.

    Else of each input to a step of a ladder, and to one of a ladder half a step further: two inputs of nearly equal
    norm are on the same step of one of them.
    """

    def run(taken: jax.Array) -> tuple[Values, jax.Array, jax.Array]:
        first, second = taken[: len(x1)], taken[-len(x1 if x2 is None else x2) :]
        b = None if x2 is None else _scaled_by(x2, -second)
        nngp, ntk = (_scaled_by(v, first[:, None] + second) for v in near(_scaled_by(x1, -first), b))
        return (nngp, ntk), first, second

    low, high = jnp.min(jnp.where(zero, 9999, norms)), jnp.max(jnp.where(zero, -9999, norms))
    alike = high - low <= _STEP

    def rungs(half: int) -> jax.Array:
        return (norms + half & -_STEP) - half  # down to a multiple of the step, a power of two

    # The run that every call needs stays outside the choice, so that it is compiled once.
    first, *_ = run(jnp.where(alike, jnp.where(high > -9999, high, 0), rungs(0)))

    def ladders(values: Values) -> Values:
        found, a, b = run(rungs(_STEP // 2))
        same = _spread_over(a[:, None] == b, values[0].ndim)
        nngp, ntk = (jnp.where(same, new, old) for new, old in zip(found, values, strict=True))
        return nngp, ntk

    return jax.lax.cond(_anywhere(~alike), ladders, lambda values: values, first)


def _selected(
    law: Law, near: Run, far: Run, x1: ArrayLike, x2: ArrayLike | None, norms: jax.Array, zero: jax.Array
) -> Values:
    """`far` where norms differ much, those of what the first nonlinearity reads."""
    keys = jnp.where(zero, -9999.0, norms.astype(x1.dtype))
    if law.constant != 0 and law.signal != 0:
        keys = jnp.logaddexp2(2 * keys, jnp.asarray(math.log2(law.constant) - math.log2(law.signal), x1.dtype)) / 2
    different = jnp.abs(keys[: len(x1), None] - keys[-len(x1 if x2 is None else x2) :]) > _STEP
    values = near(x1, x2)

    def resolved(values: Values) -> Values:
        chosen = _spread_over(different, values[0].ndim)
        nngp, ntk = (jnp.where(chosen, new, old) for new, old in zip(far(x1, x2), values, strict=True))
        return nngp, ntk

    return jax.lax.cond(_anywhere(different), resolved, lambda values: values, values)
