"""Scaling of fields, and scaling laws of kernels.

The scale t of an input: engines divide it, and its biases, by t, so that parallel inputs are at distance nearly 0.

In homogeneous networks, φ(s·x) = s φ(x) for s > 0, N(x) is t times the same network's output at x/t with biases
divided by t. The distance of such fields f/t and f'/t' is that of their directions, E/(tt') with E = 2(√(qq') - K), if
f and f' have standard deviations in the ratio t : t'. D = q + q' - 2K would contain E in addition to (√q - √q')², and
the rounding of that. Biases of variance b² add b² (1/t - 1/t')² to the distance. t² is, up to a factor, about the
variance of the outputs: the input's mean square plus the contributions of all layers' biases.

Networks with a smooth nonlinearity or a normalisation have no such scale. Compiled engines use D of scaled inputs;
the reference engine computes with the angle itself (`kernels.angular`).

Functions that grow faster than their input increase the differences of norms: there fields change their scale. After
each nonlinearity that is not homogeneous u² is the mean variance over an input's positions, plus the contribution of
biases up to the next. Branches that meet are rescaled to the scale of their sum (`native/src/branch.hpp`).

Without biases, and with nonlinearities φ(s·x) = s φ(x), K(s x, s' x') = s s' K(x, x'): exact powers of two are factored
out of the inputs, so that their squares neither overflow nor underflow and D = q + q' - 2K resolves K. With biases the
same holds if these are scaled, too. For other networks D resolves K as long as the norms differ little. Otherwise
everything is computed in double precision, with fields scaled separately or with angles (`kernels.angular`).

Inside JAX programs norms are known only at run time: nothing is computed in another precision, only homogeneous
networks without biases have their inputs scaled, and overflow and underflow give infinity or zero without an error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import NotFiniteError
from equitangents.kernels import duals
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.program import flat
from equitangents.kernels.result import READOUT, Part

logger = logging.getLogger("equitangents")

P = TypeVar("P")


def unit_bias(steps: Iterable[Any]) -> Any:
    """Contribution of biases to t²; None if the network is not homogeneous, so that there is no scale."""
    first, *others = unit_biases(steps)
    return None if others else first


def changes_unit(op: Any) -> bool:
    """Whether an operation is a nonlinearity, or a normalisation, that is not homogeneous of degree 1."""
    return bool(op.is_normalising) or (op.nonlinearity is not None and traits_of(op.nonlinearity).gain is None)


def unit_biases(ops: Iterable[Any], changes: Callable[[Any], bool] = changes_unit) -> list[Any]:
    """Contributions of biases to the mean square of an input, and after each op for which `changes` holds."""
    found: list[Any] = [0.0]
    gain: Any = 1.0
    for op in ops:
        if changes(op):
            found.append(0.0)
            gain = 1.0
        elif op.nonlinearity is not None:
            gain = gain * traits_of(op.nonlinearity).gain
        elif op.affine is not None and not (isinstance(op.W_var, float | int) and op.W_var == 0):
            gain = gain * op.W_var
            found[-1] = found[-1] + op.b_var / gain
    return found


def has_bias(op: Any) -> bool:
    """Whether an operation adds a bias; traced values count as one."""
    return op.affine is not None and not (isinstance(op.b_var, float | int) and op.b_var == 0)


def with_biases(program: P, factor: Any) -> P:
    """The program with the standard deviations of all biases multiplied by `factor`."""

    def changed(ops: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((op if op.affine is None else op.with_bias(factor)).with_held(changed) for op in ops)

    parts = [part for part in ("ops", "field", "vector") if hasattr(program, part)]
    return replace(program, **{part: changed(getattr(program, part)) for part in parts})  # type: ignore[type-var]


_SPREAD = 4  # of logarithms of norms, up to which all pairs are near
_SPREAD_OF_SQUARES = 2.0 ** (2 * _SPREAD)
# Logarithms of norms at which every product of variances on the way is a normal number, with digits to spare.
_COMFORTABLE = {"float32": (-20.0, 20.0), "float64": (-100.0, 240.0)}
_SQUARES = {np.dtype(name): tuple(2.0 ** (2 * n) for n in ends) for name, ends in _COMFORTABLE.items()}


class Law(NamedTuple):
    """Scaling law of a network's kernels in its inputs."""

    homogeneous: bool  # every φ(s·x) = s φ(x)
    biased: bool
    vanishes: bool  # an input of zeros gives an output of exactly zero
    linear_at_zero: bool  # kernels of small enough inputs follow s² to rounding
    signal: float  # an input of variance q has about the variance signal · q + constant ...
    constant: float  # ... of its outputs if homogeneous, else where the first nonlinearity reads it


@lru_cache(maxsize=256)
def law_of(program: Any) -> Law:
    """Scaling law of the kernels of a field program, or of a program on rotations."""
    ops = list(flat(_top(program)))
    activations = [op.nonlinearity for op in ops if op.nonlinearity is not None]
    linear = [op.affine for op in ops if op.affine is not None]
    standardised = any(op.is_normalising for op in ops)
    homogeneous = not standardised and all(isinstance(a, duals.PiecewiseLinearDual) for a in activations)
    bends = (i for i, op in enumerate(ops) if op.nonlinearity is not None or op.is_normalising)
    end = len(ops) if homogeneous else next(bends)
    signal, constant = _variance(tuple(_top(program)) if homogeneous else tuple(ops[:end]), 1.0, 0.0)
    biased = any(op.b_var != 0 for op in linear)
    odd = not standardised and all(traits_of(a).linear_at_zero for a in activations)
    return Law(
        homogeneous=homogeneous,
        biased=biased,
        vanishes=not biased and all(traits_of(a).vanishes for a in activations),
        linear_at_zero=odd and not biased,
        signal=signal,
        constant=constant,
    )


def _variance(ops: tuple[Any, ...], signal: float, constant: float) -> tuple[float, float]:
    """(signal, constant) variances after `ops`, for fields that are equal at all positions."""
    for op in ops:
        if op.affine is not None:
            signal, constant = op.W_var * signal, op.W_var * constant + op.b_var
        elif isinstance(phi := op.nonlinearity, duals.PiecewiseLinearDual):
            factor = (1 + phi.slope**2) / 2
            signal, constant = factor * signal, factor * constant
        elif op.held:
            each = [_variance(branch, signal, constant) for branch in op.held]
            shares = op.shares or (1.0,) * len(each)
            signal, constant = (sum(w * found[i] for w, found in zip(shares, each, strict=True)) for i in range(2))
    return signal, constant


def _top(program: Any) -> Iterator[Any]:
    for part in ("ops",) if hasattr(program, "ops") else ("field", "vector"):
        yield from getattr(program, part)


def norms(x: Float[np.ndarray, " N *inputs"]) -> Float[np.ndarray, " N"]:
    """log2 of each input's root mean square, (N,); -inf for zeros."""
    rows = x.reshape(len(x), -1)
    with np.errstate(all="ignore"):
        squares = np.einsum("ni,ni->n", rows, rows).astype(np.float64) / max(1, rows.shape[1])
        found = np.log2(squares) / 2
        unsure = np.nonzero(~(np.abs(found) < (50 if x.dtype == np.float32 else 400)))[0]
        for i in unsure:
            row = rows[i].astype(np.float64)
            most = np.abs(row).max(initial=0)
            if most > 0 and np.isfinite(most):
                exponent = np.frexp(most)[1]
                found[i] = exponent + np.log2(np.mean(np.ldexp(row, -exponent) ** 2)) / 2
            else:
                found[i] = -np.inf if most == 0 else np.nan
    return found


def _keys(law: Law, logarithms: Any) -> Any:
    """log2 of the standard deviation that decides which pairs have similar norms (see `Law`), relative to the input's.

    In homogeneous networks that of the outputs: rounding of D is relative to variances that do not fall below their
    share of it. Other nonlinearities may saturate; there it is the input of the first of them.
    """
    if law.constant == 0 or law.signal == 0:
        return logarithms
    return np.logaddexp2(2 * logarithms, np.log2(law.constant) - np.log2(law.signal)) / 2


class Scales(NamedTuple):
    """Powers of two factored out of inputs, and the remaining steps."""

    first: np.ndarray  # inputs are divided by 2 to the power of these, (N1,) and (N2,)
    second: np.ndarray
    common: int  # and, with the biases, by 2 to this power
    zero1: np.ndarray  # whose outputs are zero
    zero2: np.ndarray
    far: bool  # whether inputs differ so much in norm, or are so large or small, that engines must keep more digits

    @property
    def moved(self) -> bool:
        """Whether any power of two is factored out."""
        return self.common != 0 or bool(self.first.any() or self.second.any())


def limits(law: Law, dtype: DType) -> tuple[float, float, float, float]:
    """(addend to inputs' mean squares, its minimum, its maximum, and its maximum ratio) for ordinary inputs."""
    low, high = _SQUARES[np.dtype(dtype)]
    # The logarithms of the roots of these sums are what `_keys` gives; of ordinary inputs no norm is zero.
    constant = float(law.constant) / float(law.signal) if law.signal else 0.0
    return constant, low, high, _SPREAD_OF_SQUARES


def ordinary(law: Law, *inputs: np.ndarray) -> bool:
    """Whether `scales_of` is known to leave these inputs as they are, by their mean squares alone."""
    constant, low, high, ratio = limits(law, inputs[0].dtype)
    smallest, largest, size = math.inf, 0.0, max(1, inputs[0][0].size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for x in inputs:
            squares = np.einsum("ni,ni->n", rows := x.reshape(len(x), -1), rows)
            smallest, largest = min(float(squares.min()), smallest), max(float(squares.max()), largest)
    least, most = smallest / size + constant, largest / size + constant
    return smallest > 0 and low <= least and most <= high and most <= ratio * least


def scales_of(law: Law, dtype: DType, x1: np.ndarray, x2: np.ndarray | None) -> Scales:
    """The `Scales` of inputs x1 and x2 (None: x1 again); non-finite inputs count as ordinary.

    Raises NotFiniteError for inputs so large that a nonhomogeneous nonlinearity's kernel overflows.
    """
    sides = [_keys_of(law, x) for x in (x1, x2) if x is not None]
    keys = np.concatenate([side[~zero] for side, zero in sides])
    powers, common, far = [np.zeros(len(side), np.int64) for side, _ in sides], 0, False
    low, high = _COMFORTABLE[np.dtype(dtype).name]
    least, most = _COMFORTABLE["float64"]
    if (keys < np.inf).all() and len(keys):
        ordinary = low <= keys.min() and keys.max() <= high and keys.max() - keys.min() <= _SPREAD
        if law.homogeneous and not law.biased:
            if not ordinary:
                powers = [np.floor(np.where(zero, 0.0, side)).astype(np.int64) for side, zero in sides]
        elif law.homogeneous:
            far = not ordinary
            common = 0 if least <= keys.min() and keys.max() <= most else math.floor(keys.max())
        elif keys.max() > most:
            raise NotFiniteError(
                f"inputs as large as 1e{keys.max() * np.log10(2):.0f} are beyond the range of this network's "
                f"nonlinearities, 1e{int(most * np.log10(2))}; scale the inputs down"
            )
        else:
            far = not ordinary
            if law.linear_at_zero:  # below this scale the network is linear to rounding
                powers = [
                    np.where(np.isfinite(side) & ~zero, np.minimum(np.floor(side - least), 0), 0).astype(np.int64)
                    for side, zero in sides
                ]
    return Scales(powers[0], powers[-1], common, sides[0][1], sides[-1][1], far)


def _keys_of(law: Law, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(`_keys` of inputs, 0 for inputs with zero output; mask of these)."""
    logarithms = norms(x)
    zero = (logarithms == -np.inf) & law.vanishes
    return _keys(law, np.where(zero, 0.0, logarithms)), zero


def divided(x: np.ndarray, exponent: Any, dtype: DType) -> np.ndarray:
    """x / 2^exponent in `dtype`; one exponent, or one per input."""
    x = np.asarray(x, np.float64 if np.dtype(dtype) == np.float64 else x.dtype)
    exponent = np.asarray(exponent).reshape((-1,) + (1,) * (x.ndim - 1)) if np.ndim(exponent) else exponent
    return np.ldexp(x, -exponent).astype(dtype, copy=False)


def as_representable(values: np.ndarray, exponents: Any, dtype: DType) -> tuple[np.ndarray, int]:
    """(values · 2^exponents in `dtype`, number of results that lost digits as subnormal numbers)."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(np.asarray(values, np.float64), exponents)
        result = found.astype(dtype)
        least = np.finfo(dtype).tiny
        exact = found if np.dtype(dtype) != np.float64 else result
        return result, int(((np.asarray(values) != 0) & (np.abs(exact) < least)).sum())


def check_representable(dtype: DType, arrays: tuple[np.ndarray, ...], inputs: tuple[np.ndarray, ...]) -> None:
    """Raise NotFiniteError if kernels of finite inputs are not finite."""
    with np.errstate(all="ignore"):
        if all(np.isfinite(a.sum()) for a in arrays):  # which costs no array of truth values
            return
    if all(np.isfinite(a).all() for a in arrays):
        return
    if not all(np.isfinite(x).all() for x in inputs):
        return
    most = max(float(np.abs(x).max(initial=0)) for x in inputs)
    name = np.dtype(dtype).name
    if most <= 2 ** _COMFORTABLE[name][1] and not any(np.isinf(a).any() for a in arrays):
        raise NotFiniteError(
            f"kernels of these inputs, none larger than {most:.1e}, are not numbers (NaN): give a LayerNorm of eps=0, "
            "which divides 0 by 0 where the variance is 0, an eps above 0; scale the inputs down if a nonlinearity "
            "overflows; raise the tolerance of an Elementwise whose function misses it at the variances that occur"
        )
    remedy = "scale the inputs down" + (", or give them as float64" if name == "float32" else "")
    raise NotFiniteError(
        f"kernels of these inputs, as large as {most:.1e}, exceed {np.finfo(dtype).max:.1e}, the largest number of "
        f"{name}; {remedy}"
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
    """Both kernels in the inputs' precision; raises if that cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype, copy=False), ntk.astype(dtype, copy=False)
    check_representable(dtype, (nngp, ntk), tuple(map(np.asarray, inputs)))
    return nngp, ntk


_CHUNK = 1 << 22  # numbers that are scaled at a time

Pair = tuple[np.ndarray, np.ndarray]


class Backends(NamedTuple):
    """Functions that compute (NNGP, NTK) of arrays in their `precision.scope`; x2 None: x1 with itself."""

    engine: Callable[[np.ndarray, np.ndarray | None], Pair]  # of inputs near to each other in norm
    any_norms: Callable[[np.ndarray, np.ndarray | None, float], Pair]  # of any, in double, with biases times a factor
    checked: bool = False  # `engine` refuses inputs of which it finds numbers that are not finite
    beyond: Callable[[np.ndarray, np.ndarray], Pair] | None = None  # of pairs (x[p], y[p]) that `engine` leaves as NaN


def all_pairs(
    law: Law,
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    part: Part = READOUT,
    paired: bool = False,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) between x1 and x2 (None: x1 with itself), each (N1, N2, *part.tail), by an engine.

    If `paired`, of the pairs (x1[p], x2[p]), each (P, *part.tail). Runs in the `precision.scope` of the inputs.
    """
    dtype, inputs = x1.dtype, (x1,) if x2 is None else (x1, x2)
    scales = None if not all(map(len, inputs)) or ordinary(law, *inputs) else scales_of(law, dtype, x1, x2)
    if scales is None or not (scales.far or scales.moved or scales.zero1.any() or scales.zero2.any()):
        values = backends.engine(x1, x2)
        beyond = _complete(backends, x1, x2, values, paired)
        if not backends.checked:
            check_representable(dtype, values, inputs)
        return *values, _notes_on(beyond)
    a, b = x1, x2
    if scales.far or scales.moved:
        working = np.float64 if scales.far else dtype
        a = divided(x1, scales.first + scales.common, working)
        b = None if x2 is None else divided(x2, scales.second + scales.common, working)
    with precision.scope(a.dtype):
        values = backends.any_norms(a, b, 2.0**-scales.common) if scales.far else backends.engine(a, b)
        beyond = _complete(backends, a, b, values, paired)
    results, lost = zip(*(_scaled_back(found, scales, dtype, part, paired) for found in values), strict=True)
    check_representable(dtype, (results[0], results[1]), inputs)
    notes = _notes_on(beyond)
    if sum(lost):
        notes.append(
            f"{sum(lost)} entries below {np.finfo(dtype).tiny:.1e}, the smallest normal number of "
            f"{dtype.name}, lost digits"
        )
        logger.warning("kernels: %s; scale the inputs up", notes[-1])
    return results[0], results[1], notes


def _scaled_back(
    values: np.ndarray, scales: Scales, dtype: np.dtype, part: Part, paired: bool
) -> tuple[np.ndarray, int]:
    """(values times the factored-out powers of two, 0 for zero outputs; number of values that lost digits)."""
    out = values if values.dtype == dtype and values.flags.writeable else np.empty_like(values, dtype)
    step, lost = max(1, _CHUNK // max(1, values[:1].size)), 0
    for start in range(0, len(values), step):
        here = slice(start, start + step)
        rows, columns = (here, here) if paired else (np.arange(len(values))[here, None], slice(None))
        found, few = values[here], 0
        if scales.far or scales.moved:
            exponents = scales.first[rows] + scales.second[columns] + 2 * scales.common
            found, few = as_representable(found, part.broadcast(exponents), dtype)
        out[here] = np.where(part.broadcast(scales.zero1[rows] | scales.zero2[columns]), 0, found)
        lost += few
    return out, lost


def _complete(
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    values: Pair,
    paired: bool,
) -> int:
    """Fill in the kernels of pairs that the engine left out, and return their number."""
    nngp, other = values[0], x1 if x2 is None else x2
    if backends.beyond is None or not nngp.size or not np.isnan(nngp.sum()):
        return 0
    missing = np.isnan(nngp)
    mirrored = not paired and x2 is None
    at = np.nonzero(np.triu(missing) if mirrored else missing)
    rows, columns = at[0], at[-1]
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
    """Notes about pairs that the engine left out."""
    if not beyond:
        return []
    note = f"{beyond} pairs by the reference engine: variances beyond the tables of an Elementwise"
    logger.info("%s", note)
    return [note]


Run = Callable[[ArrayLike, ArrayLike | None], Values]


def traced_pairs(law: Law, run: Run, x1: ArrayLike, x2: ArrayLike | None) -> Values:
    """(NNGP, NTK) between x1 and x2 (None: x1 with itself) by `run`, arrays (N1, N2, ...), keeping angles of inputs.

    For homogeneous networks powers of two are factored out of each input.
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
    zero = _broadcast(zero[:n1, None] | zero[-n2:], nngp.ndim)
    return jnp.where(zero, 0, nngp), jnp.where(zero, 0, ntk)


@jax.custom_batching.custom_vmap
def _anywhere(flags: jax.Array) -> jax.Array:
    """Whether any of the flags is set; under vmap one answer for the whole batch.

    A single condition for the batch stays a branch; one per member would compute both sides for all of them.
    """
    return jnp.any(flags)


@_anywhere.def_vmap
def _(axis_size: int, in_batched: list[bool], flags: jax.Array) -> tuple[jax.Array, bool]:
    return _anywhere(flags), False


def where_missing(found: Values, other: Callable[[], Values]) -> Values:
    """`found`, or the result of `other` if any of its NNGP is NaN."""
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
    """floor(log2 x) of positive numbers, int32, from their bits, which compiles faster than a logarithm."""
    bits = jax.lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}") >> jnp.finfo(x.dtype).nmant
    return bits.astype(jnp.int32) - jnp.finfo(x.dtype).maxexp + 1


def _power(exponents: jax.Array, dtype: DType) -> jax.Array:
    """2^exponents, as normal numbers from their bits."""
    whole = exponents.astype(f"int{8 * np.dtype(dtype).itemsize}") + jnp.finfo(dtype).maxexp - 1
    return jax.lax.bitcast_convert_type(whole << jnp.finfo(dtype).nmant, dtype)


def _scaled_by(x: ArrayLike, exponents: jax.Array) -> jax.Array:
    """x · 2^exponents of each input, in two steps without overflow of the powers."""
    half = exponents >> 1
    first, second = (_broadcast(_power(part, x.dtype), x.ndim) for part in (half, exponents - half))
    return first * x * second


def _broadcast(values: jax.Array, axes: int) -> jax.Array:
    """Values with trailing axes added, to broadcast with an array of `axes` axes."""
    return values.reshape(values.shape + (1,) * (axes - values.ndim))
