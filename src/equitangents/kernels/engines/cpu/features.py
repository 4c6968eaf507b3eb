"""Channels per position before the first nonlinearity, and the precision that they need.

Vectors of few features are often nearly parallel or nearly opposite. The tangent kernel depends on the angle between
them, whose square has the rounding errors: in single precision the angle is off by 3e-4 at worst, where it is small. In
n dimensions angles below ε have a probability of the order ε^(n-1), so that from five features on this is rare.

A power multiplies relative errors by its degree, so that two layers of third powers multiply them by nine.

Networks with smooth nonlinearities or layer normalisation have no units (`kernels.units`): behind these, and behind
biases, parallel and opposite inputs are a small angle apart, of which D and the variances hold the square to rounding
of the variances. A kink reads the angle itself. Dense networks with biases alone before the kink compute such pairs
again (`kernels.nearly_parallel`); those with windows have many of them, at flat parts of signals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.engines.cpu.activations import is_tabulated
from equitangents.kernels.plans.stages import AlongFibres, stages_of
from equitangents.kernels.plans.steps import unrolled
from equitangents.kernels.units import has_bias, unit_bias

_FEW = 4
_STEEP = 3  # degrees of powers


P = TypeVar("P")


@lru_cache(maxsize=256)
def at_any_norms(plan: P) -> P:
    """The plan for inputs of any two norms: in double precision, of fields in units of their own."""
    return replace(plan, any_norms=True)  # type: ignore[type-var]


@lru_cache(maxsize=256)
def computed_in_double(plan: AlongFibres, channels: int) -> bool:
    """Whether kernels of `plan` are computed in double precision even if inputs and results are in single precision."""
    if plan.any_norms or features(plan, channels) <= _FEW:
        return True
    parts = (*(stage.steps for stage in stages_of(plan)), unrolled(plan.vector)[0])
    steep = any(traits_of(phi).steepness >= _STEEP for phi in _nonlinearities(*parts))
    return steep or bends_what_is_smooth(*parts) or (_has_windows(*parts) and _bends_behind_a_bias(*parts))


@lru_cache(maxsize=256)
def changes_units(plan: AlongFibres) -> bool:
    """Whether fields change their unit (see `kernels.units`): a function grows, or norms of inputs may differ much."""
    steps = (*(op for stage in stages_of(plan) for op in stage.steps), *unrolled(plan.vector)[0])
    if plan.any_norms and unit_bias(steps) is None:
        return True
    return any(traits_of(a).grows for a in _nonlinearities(steps))


def bends_what_is_smooth(*parts: Iterable[Any]) -> bool:
    """Whether a kink, or a jump, follows a smooth nonlinearity among these operations."""
    activations = _nonlinearities(*parts)
    bent = [i for i, a in enumerate(activations) if traits_of(a).bent and getattr(a, "slope", 0.0) != 1.0]
    smooth = [i for i, a in enumerate(activations) if traits_of(a).curved]
    return bool(bent and smooth) and min(smooth) < max(bent)


@lru_cache(maxsize=256)
def has_tables(plan: AlongFibres) -> bool:
    """Whether functions are known by tables, so that kernels are NaN where variances lie outside of these."""
    parts = (*(stage.steps for stage in stages_of(plan)), unrolled(plan.vector)[0])
    return any(map(is_tabulated, _nonlinearities(*parts)))


def _bends_behind_a_bias(*parts: Iterable[Any]) -> bool:
    """Whether a kink, or a jump, follows a bias among the operations of a network without units."""
    ops = [op for part in parts for op in part]
    bent = [i for i, op in enumerate(ops) if op.nonlinearity is not None and traits_of(op.nonlinearity).bent]
    return any(map(has_bias, ops[: max(bent, default=0)])) and unit_bias(ops) is None


def _nonlinearities(*parts: Iterable[Any]) -> list[Any]:
    """The duals of all nonlinearities, in the order of the operations."""
    return [op.nonlinearity for part in parts for op in part if op.nonlinearity is not None]


def _has_windows(*parts: Iterable[Any]) -> bool:
    return any(op.is_window for part in parts for op in part)


def features(plan: AlongFibres, channels: int) -> int:
    """The channels of all positions that one position has seen before the first nonlinearity.

    Pools on the way add none: a window sees one average in place of many positions.
    """
    span = 1
    stages = stages_of(plan)
    positions = stages[0].levels[0].positions
    for stage in stages:
        for op in stage.steps:
            if op.nonlinearity is not None:
                return channels * min(span, positions)
            span *= op.span
    if plan.single:  # flattened before the first nonlinearity
        span = positions
    return channels * min(span, positions)
