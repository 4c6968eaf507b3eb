"""Kernels of inputs of any scale inside JAX programs, where norms are known only when the program runs.

What differs from arrays whose values are known: nothing is computed in another precision, only homogeneous networks
without biases have their inputs scaled, and what no number can hold is infinite or zero without an error.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, DType
from equitangents.kernels.runs.results import Values
from equitangents.kernels.scales import Law

Run = Callable[[ArrayLike, ArrayLike | None], Values]


def all_pairs(law: Law, run: Run, x1: ArrayLike, x2: ArrayLike | None) -> Values:
    """(NNGP, NTK) between x1 and x2 (None: x1 with itself) by `run`, arrays (N1, N2, ...) that keep angles of inputs.

    Of networks whose kernels follow the scale of inputs powers of two are taken out of each.
    """
    if 0 in (x1.size, 1 if x2 is None else x2.size):
        return run(x1, x2)
    # of both at once: each step that is one XLA kernel less compiles so much sooner
    norms, zero = _norms(_flat(x1) if x2 is None else jnp.concatenate([_flat(x1), _flat(x2)]))
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    if law.homogeneous and not law.biased:
        first, second = norms[:n1], norms[-n2:]
        values = run(_scaled_by(x1, -first), None if x2 is None else _scaled_by(x2, -second))
        nngp, ntk = (_scaled_by(v, first[:, None] + second) for v in values)
    else:
        nngp, ntk = run(x1, x2)
    if not law.vanishes:
        return nngp, ntk
    zero = _spread_over(zero[:n1, None] | zero[-n2:], nngp.ndim)
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


def where_missing(found: Values, other: Callable[[], Values]) -> Values:
    """`found`, or the other (NNGP, NTK) where any of its NNGP is NaN."""
    missing = jnp.isnan(found[0])
    instead = jax.lax.cond(_anywhere(missing), other, lambda: found)
    return jnp.where(missing, instead[0], found[0]), jnp.where(missing, instead[1], found[1])


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
    first, second = (_spread_over(_power(part, x.dtype), x.ndim) for part in (half, exponents - half))
    return first * x * second


def _spread_over(values: jax.Array, axes: int) -> jax.Array:
    """Values beside an array of so many axes, of which they have the first."""
    return values.reshape(values.shape + (1,) * (axes - values.ndim))
