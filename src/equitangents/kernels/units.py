"""The unit t of an input: what engines divide it, and its biases, by, so that parallel inputs are at distance nearly 0.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from equitangents.kernels.branches import flat
from equitangents.kernels.duals.traits import traits_of
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
