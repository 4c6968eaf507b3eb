"""Runs steerable programs: one input with itself, for its variances, and pairs of inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax

from equitangents.kernels.branches import Parallel
from equitangents.kernels.steerable.fields import Fields, Side, Variances, added, restricted, start, variances
from equitangents.kernels.steerable.linear import averaged, filtered, mapped
from equitangents.kernels.steerable.nonlinear import gated, normed, sampled
from equitangents.kernels.steerable.program import (
    Filter,
    Gate,
    Nonlinear,
    Norm,
    PointMean,
    Sampled,
    SteerableProgram,
)

_Here = tuple[Fields, Side, Side]
_Dual = Callable[[Nonlinear, Fields], Fields]


def own(program: SteerableProgram, x: jax.Array, there: jax.Array) -> tuple[tuple[Variances, ...], Fields]:
    """(variances before every nonlinearity, final kernels) of one input with itself; x (P, channels), there (P,)."""
    side = Side(x[:, : program.space.coordinates], there)
    found: list[Variances] = []

    def dual(op: Nonlinear, fields: Fields) -> Fields:
        found.append(variances(fields))
        return _nonlinear(op, fields, found[-1], found[-1])

    fields = restricted(start(program.space.features, program.space.coordinates, x, x), side, side)
    fields = _run(program.ops, (fields, side, side), dual)[0]
    return tuple(found), fields


def pair(
    program: SteerableProgram,
    one: tuple[jax.Array, jax.Array],
    other: tuple[jax.Array, jax.Array],
    v1: tuple[Variances, ...],
    v2: tuple[Variances, ...],
) -> Fields:
    """Final kernels of two inputs (x, there), with their variances before every nonlinearity."""
    a, b = (Side(x[:, : program.space.coordinates], there) for x, there in (one, other))
    known = iter(zip(v1, v2, strict=True))
    fields = restricted(start(program.space.features, program.space.coordinates, one[0], other[0]), a, b)
    return _run(program.ops, (fields, a, b), lambda op, fields: _nonlinear(op, fields, *next(known)))[0]


def _run(ops: tuple[Any, ...], here: _Here, dual: _Dual) -> _Here:
    """Operations in order, those of branches one branch after another."""
    several: tuple[_Here, ...] = (here,)
    for op in ops:
        several = _parallel(op, several, dual) if op.is_branching else (_step(op, *several[0], dual),)
    (last,) = several
    return last


def _parallel(op: Parallel, several: tuple[_Here, ...], dual: _Dual) -> tuple[_Here, ...]:
    if op.branches:
        each = several * len(op.branches) if len(several) == 1 else several
        several = tuple(_run(branch, one, dual) for branch, one in zip(op.branches, each, strict=True))
    return tuple(reduce(_sum, (several[i] for i in join.fields)) for join in op.joins) or several


def _sum(a: _Here, b: _Here) -> _Here:
    """Branches are independent, and at most one of them has a mean."""
    return added(a[0], b[0]), a[1], a[2]


def _step(op: Any, fields: Fields, one: Side, other: Side, dual: _Dual) -> _Here:
    if isinstance(op, PointMean):
        begin, end = (Side(side.points[:1], side.there[:1] * 0 + 1) for side in (one, other))
        return averaged(fields, one, other), begin, end
    if op.needs_variances:
        after = dual(op, fields)
    else:
        after = filtered(op, fields, one, other) if isinstance(op, Filter) else mapped(op, fields)
    return restricted(after, one, other), one, other


_NONLINEAR: dict[type, Callable[..., Fields]] = {Gate: gated, Sampled: sampled, Norm: normed}


def _nonlinear(op: Nonlinear, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    return _NONLINEAR[type(op)](op, fields, v1, v2)
