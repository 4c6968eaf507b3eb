"""Scaling laws of kernels, and pairs of inputs too different in norm to carry a distance.

Without biases, and with nonlinearities φ(s·x) = s φ(x), K(s x, s' x') = s s' K(x, x'): exact powers of two are taken
out of the inputs, so that their squares neither overflow nor underflow and D = q + q' - 2K resolves K. With biases the
same holds if these are scaled, too. Of other networks D resolves K as long as the norms differ little; pairs beyond
that are the reference engine's, which carries the angle (`kernels.angular`), in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents._types import DType
from equitangents.errors import NotFiniteError
from equitangents.kernels import duals
from equitangents.kernels.branches import flat
from equitangents.kernels.duals.traits import traits_of

BITS = 2  # norms whose logarithms to base 2 fall into one such interval are of one bin; pairs of neighbours are near
_FEW = 64  # numbers, whose extremes a list gives sooner
_SPREAD = 4  # of logarithms of norms, up to which all pairs are near
_SPREAD_OF_SQUARES = 2.0 ** (2 * _SPREAD)
_RESOLVED = 12  # of logarithms of norms, up to which distances in double precision resolve products to single precision
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
    """Scaling law of the kernels of a field program, or of one on rotations."""
    ops = list(flat(_top(program)))
    activations = [op.nonlinearity for op in ops if op.nonlinearity is not None]
    linear = [op.affine for op in ops if op.affine is not None]
    standardised = any(op.is_normalising for op in ops)
    homogeneous = not standardised and all(isinstance(a, duals.PiecewiseLinear) for a in activations)
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
    """(signal, constant) after `ops`, of fields that are alike at all positions."""
    for op in ops:
        if op.affine is not None:
            signal, constant = op.W_var * signal, op.W_var * constant + op.b_var
        elif isinstance(phi := op.nonlinearity, duals.PiecewiseLinear):
            factor = (1 + phi.slope**2) / 2
            signal, constant = factor * signal, factor * constant
        elif op.held:
            each = [_variance(branch, signal, constant) for branch in op.held]
            shares = op.shares or (1.0,) * len(each)
            signal, constant = (sum(w * found[i] for w, found in zip(shares, each, strict=True)) for i in range(2))
    return signal, constant


def _top(program: Any) -> Iterator[Any]:
    for part in ("sphere", "field", "vector") if hasattr(program, "sphere") else ("ops",):
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
    """log2 of the deviation that decides which pairs are near (see `Law`), in units of the input's.

    In homogeneous networks that of the outputs: rounding of D on the way is relative to variances that do not fall
    below their share of it. Other nonlinearities may saturate; there it is what the first of them reads.
    """
    if law.constant == 0 or law.signal == 0:
        return logarithms
    return np.logaddexp2(2 * logarithms, np.log2(law.constant) - np.log2(law.signal)) / 2


class Treatment(NamedTuple):
    """Computation of pairs of two bins: by the engine, also with scaled biases, or "apart", by the reference engine.

    Powers of two are taken out of inputs; only where biases are not scaled can these differ.
    """

    way: str  # "engine", "common" or "apart"
    first: int  # inputs are divided by 2 to this power
    second: int
    double: bool


def treatment(law: Law, bin1: int, bin2: int, dtype: DType) -> Treatment:
    """The `Treatment` of pairs of inputs of two bins."""
    near = abs(bin1 - bin2) <= 1
    least, most = BITS * min(bin1, bin2), BITS * max(bin1, bin2)
    if law.homogeneous and not law.biased:
        return Treatment("engine", *((most, most) if near else (BITS * bin1, BITS * bin2)), False)
    ranges = (_COMFORTABLE[name] for name in (np.dtype(dtype).name, "float64"))
    comfortable, in_double = (low <= least and most <= high for low, high in ranges)
    if not near and np.dtype(dtype) == np.float32 and most - least <= _RESOLVED:
        return Treatment("engine", 0, 0, True)
    if not law.homogeneous:
        return Treatment("engine", 0, 0, not comfortable) if near else Treatment("apart", 0, 0, True)
    if near:
        return Treatment("engine", 0, 0, False) if comfortable else Treatment("common", most, most, False)
    middle = 0 if in_double else (least + most) // 2
    return Treatment("apart", middle, middle, True)


@dataclass(frozen=True)
class Scales:
    """Bins of both sets of inputs, the powers of two that were taken out before, and which are zeros."""

    law: Law
    dtype: np.dtype
    bins1: np.ndarray
    bins2: np.ndarray
    shift1: np.ndarray
    shift2: np.ndarray
    zero1: np.ndarray
    zero2: np.ndarray
    ordinary: bool  # all of it is for the engine, as it is

    def blocks(self, symmetric: bool) -> Iterator[tuple[np.ndarray, np.ndarray, Treatment, bool]]:
        """(rows, columns, treatment, whether these are one set of inputs) for every pair of bins, once if symmetric."""
        for bin1 in np.unique(self.bins1[~self.zero1]):
            rows = np.nonzero((self.bins1 == bin1) & ~self.zero1)[0]
            for bin2 in np.unique(self.bins2[~self.zero2]):
                if not symmetric or bin2 >= bin1:
                    columns = np.nonzero((self.bins2 == bin2) & ~self.zero2)[0]
                    how = treatment(self.law, int(bin1), int(bin2), self.dtype)
                    yield rows, columns, how, symmetric and bin1 == bin2


def least_and_most(values: np.ndarray) -> tuple[float, float]:
    """Minimum and maximum of non-negative numbers, NaN if any is NaN."""
    if values.size > _FEW:
        return float(values.min()), float(values.max())
    numbers = values.tolist()
    return (math.nan, math.nan) if math.isnan(sum(numbers)) else (min(numbers), max(numbers))


def are_ordinary(law: Law, inputs: tuple[np.ndarray, ...]) -> bool:
    """Whether the extreme norms show that the engine computes all pairs unscaled; then no norm is zero.

    False does not say that they are not: see `scales_of`.
    """
    first, last = math.inf, 0.0
    for x in inputs:
        if not x.size:
            return False
        flat = x.reshape(len(x), -1)
        with np.errstate(all="ignore"):
            squares = np.vecdot(flat, flat)
        least, most = least_and_most(squares)
        if not (least > 0 and most < math.inf):
            return False
        first, last = min(first, least / flat.shape[1]), max(last, most / flat.shape[1])
    low, high = _SQUARES[inputs[0].dtype]
    # What `_keys` gives are the logarithms of the roots of these.
    constant = float(law.constant) / float(law.signal) if law.signal else 0.0
    first, last = first + constant, last + constant
    return low <= first and last <= high and last <= _SPREAD_OF_SQUARES * first


def scales_of(law: Law, dtype: DType, x1: np.ndarray, x2: np.ndarray | None) -> Scales:
    """The bins of inputs x1 and x2 (None: x1 again); what is not finite counts as ordinary.

    Raises NotFiniteError for inputs so large that a nonlinearity that is not homogeneous has no kernel of them.
    """
    dtype = np.dtype(dtype)
    sides = [_side(law, x) for x in (x1, x2) if x is not None]
    one, other = sides[0], sides[-1]
    keys = np.concatenate([side.keys[~side.zero] for side in sides])
    low, high = _COMFORTABLE[dtype.name]
    if not (keys < np.inf).all() or not len(keys):
        ordinary = True
    else:
        ordinary = low <= keys.min() and keys.max() <= high and keys.max() - keys.min() <= _SPREAD
        ordinary = ordinary and not any(side.shift.any() for side in sides)
        most = _COMFORTABLE["float64"][1]
        if not law.homogeneous and keys.max() > most:
            raise NotFiniteError(
                f"inputs as large as 1e{keys.max() * np.log10(2):.0f} are beyond the range of this network's "
                f"nonlinearities, 1e{int(most * np.log10(2))}; scale the inputs down"
            )
    return Scales(law, dtype, one.bins, other.bins, one.shift, other.shift, one.zero, other.zero, bool(ordinary))


class _Side(NamedTuple):
    keys: np.ndarray
    bins: np.ndarray
    shift: np.ndarray
    zero: np.ndarray


def _side(law: Law, x: np.ndarray) -> _Side:
    logarithms = norms(x)
    zero = (logarithms == -np.inf) & law.vanishes
    keys = _keys(law, np.where(zero, 0.0, logarithms))
    shift = np.zeros(len(x), np.int64)
    if law.linear_at_zero and not law.homogeneous:
        # Below this scale the network is linear to rounding: powers of two are taken out of each input.
        least = _COMFORTABLE["float64"][0]
        small = np.isfinite(keys) & (keys < least)
        shift[small] = np.floor(keys[small] - least).astype(np.int64)
        keys = keys - shift
    # Neither infinity nor NaN, nor an input of zeros whose output is none, has a norm of its own.
    bins = np.floor(np.where(np.isfinite(keys), keys, -600 if law.homogeneous else -300) / BITS).astype(np.int64)
    return _Side(keys, bins, shift, zero)


def divided(x: np.ndarray, exponent: Any, dtype: DType) -> np.ndarray:
    """x / 2^exponent in `dtype`; the exponent is one number, or one for each input."""
    x = np.asarray(x, np.float64 if np.dtype(dtype) == np.float64 else x.dtype)
    exponent = np.asarray(exponent).reshape((-1,) + (1,) * (x.ndim - 1)) if np.ndim(exponent) else exponent
    return np.ldexp(x, -exponent).astype(dtype, copy=False)


def as_representable(values: np.ndarray, exponents: Any, dtype: DType) -> tuple[np.ndarray, int]:
    """(values · 2^exponents in `dtype`, how many of them lost digits because they are smaller than normal numbers)."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(np.asarray(values, np.float64), exponents)
        result = found.astype(dtype)
        least = np.finfo(dtype).tiny
        exact = found if np.dtype(dtype) != np.float64 else result
        return result, int(((np.asarray(values) != 0) & (np.abs(exact) < least)).sum())


def check_representable(dtype: DType, arrays: tuple[np.ndarray, ...], inputs: tuple[np.ndarray, ...]) -> None:
    """Raise NotFiniteError where kernels of finite inputs are not: NaN and infinities are not results."""
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
