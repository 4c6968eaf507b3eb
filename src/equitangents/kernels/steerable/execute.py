"""Runs steerable programs: one input with itself, for its variances, and pairs of inputs."""

from __future__ import annotations

from typing import Any

from equitangents.kernels.steerable.fields import Fields, Side, Variances, restricted, start, variances
from equitangents.kernels.steerable.linear import averaged, filtered, mapped
from equitangents.kernels.steerable.nonlinear import gated, normed, sampled
from equitangents.kernels.steerable.program import (
    Filter,
    Gate,
    Nonlinear,
    Op,
    PointMap,
    PointMean,
    Sampled,
    SteerableProgram,
)


def own(program: SteerableProgram, x: Any, there: Any) -> tuple[tuple[Variances, ...], Fields]:
    """(variances before every nonlinearity, final kernels) of one input with itself; x (P, channels), there (P,)."""
    side = Side(x[:, : program.features.space], there)
    fields = restricted(start(program.features, x, x), side, side)
    found: list[Variances] = []
    for op in program.ops:
        if isinstance(op, Nonlinear):
            found.append(variances(fields))
            fields = restricted(_nonlinear(op, fields, found[-1], found[-1]), side, side)
        else:
            fields, side, _ = _linear(op, fields, side, side)
    return tuple(found), fields


def pair(program: SteerableProgram, one: tuple[Any, Any], other: tuple[Any, Any], v1: Any, v2: Any) -> Fields:
    """Final kernels of two inputs (x, there), with their variances before every nonlinearity."""
    a, b = (Side(x[:, : program.features.space], there) for x, there in (one, other))
    fields = restricted(start(program.features, one[0], other[0]), a, b)
    nonlinear = iter(zip(v1, v2, strict=True))
    for op in program.ops:
        if isinstance(op, Nonlinear):
            fields = restricted(_nonlinear(op, fields, *next(nonlinear)), a, b)
        else:
            fields, a, b = _linear(op, fields, a, b)
    return fields


def _nonlinear(op: Nonlinear, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    if isinstance(op, Gate):
        return gated(op, fields, v1, v2)
    return sampled(op, fields, v1, v2) if isinstance(op, Sampled) else normed(op, fields, v1, v2)


def _linear(op: Op, fields: Fields, one: Side, other: Side) -> tuple[Fields, Side, Side]:
    if isinstance(op, PointMean):
        begin, end = (Side(side.points[:1], side.there[:1] * 0 + 1) for side in (one, other))
        return averaged(fields, one, other), begin, end
    if isinstance(op, Filter):
        return restricted(filtered(op, fields, one, other), one, other), one, other
    assert isinstance(op, PointMap)
    return restricted(mapped(op, fields), one, other), one, other
