"""The unit t of an input: what engines divide it, and its biases, by, so that parallel inputs are at distance nearly 0.

Of homogeneous networks, φ(s·x) = s φ(x) for s > 0, N(x) is t times the same network's output at x/t with biases
divided by t. The distance of such fields f/t and f'/t' is that of their directions, E/(tt') with E = 2(√(qq') - K),
where f and f' have the ratio t : t' of deviations. D = q + q' - 2K would hold E beside (√q - √q')², and the rounding
of that. Biases of variance b² add b² (1/t - 1/t')² to the distance. t² is, but for a factor, about the variance of
the outputs: the input's mean square, and what the biases of all layers add to it.

Where a smooth nonlinearity or a normalisation comes, units are left: D = tt' D̂ + (t - t') (t q̂ - t' q̂') of the fields,
hats in units. The reference engine has units up to there, compiled engines those of whole networks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.program import Affine, Dual, Op, RatedAffine, Standardise, inside, with_inside

P = TypeVar("P")


def leaves_units(op: Any) -> bool:
    """Whether an operation is not homogeneous: a smooth nonlinearity, or a normalisation."""
    return isinstance(op, Standardise) or (isinstance(op, Dual) and traits_of(op.activation).gain is None)


def first_unit_bias(*parts: Iterable[Any]) -> Any:
    """`unit_bias` of what comes before the first operation that is not homogeneous, where units help.

    They help where a kink or layer normalisation reads the angle that a bias leaves parallel inputs. Inside a branch
    units cannot be left.
    """
    ops = [op for part in parts for op in part]
    count = next((i for i, op in enumerate(ops) if any(map(leaves_units, flat((op,))))), len(ops))
    first = ops[count] if count < len(ops) else None
    if first is not None and not leaves_units(first):
        return None
    reads = [i for i, op in enumerate(ops[: count + 1]) if isinstance(op, Dual) and not traits_of(op.activation).curved]
    helps = first is None or any(map(has_bias, flat(ops[: max(reads, default=0)])))
    return unit_bias(ops[:count]) if helps else None


def unit_bias(*parts: Iterable[Any]) -> Any:
    """What biases add to an input's mean square in t²; None: the network is not homogeneous, and has no units."""
    added, gain = 0.0, 1.0
    for op in (op for part in parts for op in flat(part)):
        if isinstance(op, Standardise):
            return None
        if isinstance(op, Affine) and not (isinstance(op.W_var, float | int) and op.W_var == 0):
            gain = gain * op.W_var
            added = added + op.b_var / gain
        elif isinstance(op, Dual):
            own = traits_of(op.activation).gain
            if own is None:
                return None
            gain = gain * own
    return added


def has_bias(op: Any) -> bool:
    """Whether an operation adds a bias, which numbers that are not known yet may be."""
    return isinstance(op, Affine) and not (isinstance(op.b_var, float | int) and op.b_var == 0)


def flat(ops: Iterable[Any]) -> Iterable[Any]:
    """All operations, and those inside them, each behind what holds it."""
    for op in ops:
        yield op
        for held in inside(op):
            yield from flat(held)


def with_biases(program: P, factor: Any) -> P:
    """A program, or a plan, whose biases have `factor` times the standard deviation, up to where units are left."""
    left = False

    def scaled(op: Op) -> Op:
        nonlocal left
        left = left or leaves_units(op)
        if left or not isinstance(op, Affine):
            return op
        op = replace(op, b_var=(op.b_var**0.5 * factor) ** 2)
        return replace(op, bias_rate=op.bias_rate * factor**2) if isinstance(op, RatedAffine) else op

    return _changed(program, scaled)


def with_affine(program: P, change: Callable[[Affine], Affine]) -> P:
    """A program, or a plan, with all its `Affine` changed, in order."""
    return _changed(program, lambda op: change(op) if isinstance(op, Affine) else op)


def _changed(program: P, change: Callable[[Op], Op]) -> P:
    """With all operations changed, in order, and then those inside them."""

    def changed(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple(with_inside(change(op), changed) for op in ops)

    parts = [part for part in ("ops", "sphere", "field", "vector") if hasattr(program, part)]
    return replace(program, **{part: changed(getattr(program, part)) for part in parts})  # type: ignore[type-var]
