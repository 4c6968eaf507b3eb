"""Scaling: units of fields, and laws of kernels in the scale of inputs.

The unit t of an input: what engines divide it, and its biases, by, so that parallel inputs are at distance nearly 0.

Of homogeneous networks, φ(s·x) = s φ(x) for s > 0, N(x) is t times the same network's output at x/t with biases
divided by t. The distance of such fields f/t and f'/t' is that of their directions, E/(tt') with E = 2(√(qq') - K),
where f and f' have the ratio t : t' of deviations. D = q + q' - 2K would hold E beside (√q - √q')², and the rounding
of that. Biases of variance b² add b² (1/t - 1/t')² to the distance. t² is, but for a factor, about the variance of
the outputs: the input's mean square, and what the biases of all layers add to it.

Networks with a smooth nonlinearity or a normalisation have no such units. Compiled engines carry D of inputs in units;
the reference engine has the angle itself (`kernels.angular`).

Functions that grow faster than their input make norms differ more behind them: there fields change their unit. Behind
each nonlinearity that is not homogeneous u² is the mean variance of an input's positions, and what biases add to it up
to the next. Branches that meet are brought into the unit of their sum (`native/src/branch.hpp`).

Without biases, and with nonlinearities φ(s·x) = s φ(x), K(s x, s' x') = s s' K(x, x'): exact powers of two are taken
out of the inputs, so that their squares neither overflow nor underflow and D = q + q' - 2K resolves K. With biases the
same holds if these are scaled, too. Of other networks D resolves K as long as the norms differ little. Beyond that all
is computed in double precision, of fields in units of their own or with angles (`kernels.angular`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from equitangents._types import DType
from equitangents.errors import NotFiniteError
from equitangents.kernels import duals
from equitangents.kernels.branches import flat
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.operations import Affine
from equitangents.kernels.program import Op

P = TypeVar("P")


def unit_bias(*parts: Iterable[Any]) -> Any:
    """Contribution of biases to t²; None if the network is not homogeneous, and has no units."""
    first, *others = unit_biases(op for part in parts for op in flat(part))
    return None if others else first


def changes_unit(op: Any) -> bool:
    """Whether an operation is a nonlinearity, or a normalisation, that is not homogeneous of degree 1."""
    return bool(op.is_normalising) or (op.nonlinearity is not None and traits_of(op.nonlinearity).gain is None)


def unit_biases(ops: Iterable[Any], changes: Callable[[Any], bool] = changes_unit) -> list[Any]:
    """Contributions of biases to the mean square of an input, and after each op that `changes` the unit."""
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
    """Whether an operation adds a bias, which numbers that are not known yet may be."""
    return op.affine is not None and not (isinstance(op.b_var, float | int) and op.b_var == 0)


def with_biases(program: P, factor: Any) -> P:
    """A program, or a plan, whose biases have `factor` times the standard deviation."""
    return with_affine(program, lambda op: op.with_bias(factor))


def with_affine(program: P, change: Callable[[Affine], Affine]) -> P:
    """A program, or a plan, with all its `Affine` changed, in order, and then those inside other operations."""

    def changed(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple((change(op) if isinstance(op, Affine) else op).with_held(changed) for op in ops)

    parts = [part for part in ("ops", "sphere", "field", "vector") if hasattr(program, part)]
    return replace(program, **{part: changed(getattr(program, part)) for part in parts})  # type: ignore[type-var]


_FEW = 64  # numbers, whose extremes a list gives sooner
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


class Scales(NamedTuple):
    """Powers of two that are taken out of inputs, and what remains to be done."""

    first: np.ndarray  # inputs are divided by 2 to the power of these, (N1,) and (N2,)
    second: np.ndarray
    common: int  # and, with the biases, by 2 to this power
    zero1: np.ndarray  # whose outputs are zero
    zero2: np.ndarray
    far: bool  # whether inputs differ so much in norm, or are so large or small, that engines must keep more digits

    @property
    def moved(self) -> bool:
        """Whether any power of two is taken out."""
        return self.common != 0 or bool(self.first.any() or self.second.any())


def least_and_most(values: np.ndarray) -> tuple[float, float]:
    """Minimum and maximum of non-negative numbers, NaN if any is NaN."""
    if values.size > _FEW:
        return float(values.min()), float(values.max())
    numbers = values.tolist()
    return (math.nan, math.nan) if math.isnan(sum(numbers)) else (min(numbers), max(numbers))


def limits(law: Law, dtype: DType) -> tuple[float, float, float, float]:
    """What is added to inputs' mean squares, the least and the most of that, and their ratio, of ordinary inputs."""
    low, high = _SQUARES[np.dtype(dtype)]
    # The logarithms of the roots of these sums are what `_keys` gives.
    constant = float(law.constant) / float(law.signal) if law.signal else 0.0
    return constant, low, high, _SPREAD_OF_SQUARES


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
    constant, low, high, ratio = limits(law, inputs[0].dtype)
    first, last = first + constant, last + constant
    return low <= first and last <= high and last <= ratio * first


def scales_of(law: Law, dtype: DType, x1: np.ndarray, x2: np.ndarray | None) -> Scales:
    """The `Scales` of inputs x1 and x2 (None: x1 again); what is not finite counts as ordinary.

    Raises NotFiniteError for inputs so large that a nonlinearity that is not homogeneous has no kernel of them.
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
    """(`_keys` of inputs, 0 for those whose output is zero; which these are)."""
    logarithms = norms(x)
    zero = (logarithms == -np.inf) & law.vanishes
    return _keys(law, np.where(zero, 0.0, logarithms)), zero


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
