"""Kernels of inputs of any scale: of NumPy arrays and inside JAX programs, as arrays of the kind of the inputs.

Powers of two are taken out, or all is computed in a way for any two norms. Inside JAX programs norms are known only
when the program runs: nothing is computed in another precision, only homogeneous networks without biases have their
inputs scaled, and what no number can hold is infinite or zero without an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.kernels.fields import MATRIX, Layout, Part
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.scales import (
    Law,
    Scales,
    are_ordinary,
    as_representable,
    check_representable,
    divided,
    scales_of,
)

Values = tuple[jax.Array, jax.Array]  # NNGP and NTK inside a JAX program


Traced = Callable[..., Values]  # of the inputs, x1 or x1 and x2


def any_traced(*inputs: object) -> bool:
    """Whether any array of any input is traced inside a JAX program."""
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def with_derivatives_of(reference: Callable[..., Values], run: Callable[..., Values]) -> Callable[..., Values]:
    """run(*inputs) inside a JAX program, with the derivatives of the reference engine."""
    found = jax.custom_jvp(run)

    @found.defjvp
    def _(primals: tuple[ArrayLike, ...], tangents: tuple[ArrayLike, ...]) -> tuple[Values, Values]:
        return found(*primals), jax.jvp(reference, primals, tangents)[1]

    return found


def cast(dtype: DType, nngp: np.ndarray, ntk: np.ndarray, inputs: Iterable[object]) -> tuple[np.ndarray, np.ndarray]:
    """Both in the precision of the inputs; an error where that cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype, copy=False), ntk.astype(dtype, copy=False)
    check_representable(dtype, (nngp, ntk), tuple(map(np.asarray, inputs)))
    return nngp, ntk


def result(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, **facts: Any) -> Kernels:
    """`Kernels`, of JAX arrays where one of the `leaves`, the arrays of the inputs, is one."""
    return Kernels(*_as_given(leaves, nngp, ntk), **facts)


def result_at(
    leaves: Iterable[object],
    nngp: ArrayLike,
    ntk: ArrayLike,
    part: Part | None,
    memory: int,
    *,
    between: bool = False,
    **facts: Any,
) -> Kernels | KernelField:
    """`result`, or the `KernelField` at a part of the pairs of positions, which was planned to take so much memory.

    `between` two sets of inputs a field shows its axes in another order than it was computed in.
    """
    if part is None:
        return result(leaves, nngp, ntk, **facts)
    if between:
        nngp, ntk = part.layout.public(nngp), part.layout.public(ntk)
    if isinstance(nngp, np.ndarray):
        nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
    return KernelField(*_as_given(leaves, nngp, ntk), positions=part.kind, memory=memory, **facts)


def _as_given(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(nngp, np.ndarray) and any([isinstance(leaf, jax.Array) for leaf in leaves]):  # generators take longer
        with precision.scope(nngp.dtype):
            return jnp.asarray(nngp), jnp.asarray(ntk)
    return nngp, ntk


logger = logging.getLogger("equitangents")

_CHUNK = 1 << 22  # numbers that are scaled at a time

Pair = tuple[np.ndarray, np.ndarray]


class Backends(NamedTuple):
    """Ways to compute (NNGP, NTK) of arrays, in the `precision.scope` of these; x2 is None for x1 with itself."""

    engine: Callable[[np.ndarray, np.ndarray | None], Pair]  # of inputs near to each other in norm
    any_norms: Callable[[np.ndarray, np.ndarray | None, float], Pair]  # of any, in double, with biases times a factor
    by_reference: bool  # whether another engine has that way
    checked: bool = False  # `engine` refuses inputs of which it finds numbers that are not finite
    beyond: Callable[[np.ndarray, np.ndarray], Pair] | None = None  # of pairs (x[p], y[p]) that `engine` leaves as NaN


def all_pairs(
    law: Law,
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    layout: Layout = MATRIX,
    listed: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) between x1 and x2 (None: x1 with itself), each (N1, N2, *layout.tail), by an engine.

    Of `listed` pairs, indices (P,) into both, each (P, *layout.tail). In the `precision.scope` of the inputs.
    """
    dtype, inputs = x1.dtype, (x1,) if x2 is None else (x1, x2)
    if are_ordinary(law, inputs) or not all(map(len, inputs)):
        values = backends.engine(x1, x2)
        beyond = _complete(backends, x1, x2, values, listed)
        if not backends.checked:
            check_representable(dtype, values, inputs)
        return *values, _notes_on(beyond)
    scales = scales_of(law, dtype, x1, x2)
    a, b = x1, x2
    if scales.far or scales.moved:
        working = np.float64 if scales.far else dtype
        a = divided(x1, scales.first + scales.common, working)
        b = None if x2 is None else divided(x2, scales.second + scales.common, working)
    with precision.scope(a.dtype):
        values = backends.any_norms(a, b, 2.0**-scales.common) if scales.far else backends.engine(a, b)
        beyond = _complete(backends, a, b, values, listed)
    results, lost = zip(*(_scaled_back(part, scales, dtype, layout, listed) for part in values), strict=True)
    check_representable(dtype, (results[0], results[1]), inputs)
    notes = _notes_on(beyond)
    if scales.far and backends.by_reference:
        notes.append("inputs of very different norm by the reference engine")
    if sum(lost):
        notes.append(
            f"{sum(lost)} entries below {np.finfo(dtype).tiny:.1e}, the smallest normal number of "
            f"{dtype.name}, lost digits"
        )
        logger.warning("kernels: %s; scale the inputs up", notes[-1])
    return results[0], results[1], notes


def _scaled_back(
    values: np.ndarray, scales: Scales, dtype: np.dtype, layout: Layout, listed: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, int]:
    """(Values with the powers of two that were taken out, 0 where an output is zero; how many of them lost digits)."""
    out = values if values.dtype == dtype and values.flags.writeable else np.empty_like(values, dtype)
    step, lost = max(1, _CHUNK // max(1, values[:1].size)), 0
    for start in range(0, len(values), step):
        here = slice(start, start + step)
        rows, columns = (
            (np.arange(len(values))[here, None], slice(None)) if listed is None else (i[here] for i in listed)
        )
        found, few = values[here], 0
        if scales.far or scales.moved:
            exponents = scales.first[rows] + scales.second[columns] + 2 * scales.common
            found, few = as_representable(found, layout.spread(exponents), dtype)
        out[here] = np.where(layout.spread(scales.zero1[rows] | scales.zero2[columns]), 0, found)
        lost += few
    return out, lost


def _complete(
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    values: Pair,
    listed: tuple[np.ndarray, np.ndarray] | None,
) -> int:
    """How many pairs the engine left out, whose kernels are then filled in."""
    nngp, other = values[0], x1 if x2 is None else x2
    if backends.beyond is None or not nngp.size or not np.isnan(nngp.sum()):
        return 0
    missing = np.isnan(nngp)
    mirrored = listed is None and x2 is None
    at = np.nonzero(np.triu(missing) if mirrored else missing)
    rows, columns = at if listed is None else (index[at] for index in listed)
    step = max(1, _CHUNK // max(1, x1[:1].size))
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        place = tuple(index[here] for index in at)
        found = backends.beyond(x1[rows[here]], other[columns[here]])
        for out, part in zip(values, found, strict=True):
            out[place] = part
            if mirrored:
                out[place[::-1]] = part
    return int(missing.sum())


def _notes_on(beyond: int) -> list[str]:
    """What a reader should know of pairs that the engine left out."""
    if not beyond:
        return []
    note = f"{beyond} pairs by the reference engine: variances beyond the tables of an Elementwise"
    logger.info("%s", note)
    return [note]


Run = Callable[[ArrayLike, ArrayLike | None], Values]


def traced_pairs(law: Law, run: Run, x1: ArrayLike, x2: ArrayLike | None) -> Values:
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
