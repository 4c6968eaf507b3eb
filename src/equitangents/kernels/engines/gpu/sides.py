"""What the operations on pairs need of one input alone, computed once per input: variances, and functions of them.

The functions for each nonlinearity are those of `native/src/*.hpp`, in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels import duals
from equitangents.kernels.engines.reference.execute import Moments
from equitangents.kernels.operations import Decouple
from equitangents.kernels.plans.steps import Step
from equitangents.kernels.program import Op

DUAL_SIDES: dict[type, int] = {duals.PiecewiseLinear: 2, duals.Erf: 6, duals.Gelu: 4, duals.Sin: 2, duals.Cos: 2}


@dataclass(frozen=True)
class Side:
    """`count` numbers at every position of level `level`, from number `at` on among those of an input.

    `kind` is a dual activation, or the factor of the variance; or, where a residual branch joins, the level of its
    fork, whose means stand beside those of the branch. Behind all sides is one over the input's unit, if it has one.
    """

    kind: type | float | int
    level: int
    count: int
    at: int


def sides(
    layout: tuple[Side, ...], size: int, ops: tuple[Op, ...], moments: Moments, unit: jax.Array | None
) -> jax.Array:
    """The numbers of N inputs, (N, size), from their moments, (positions, N) at every level.

    `unit`, (N,), is what the inputs were divided by, or None.
    """
    variances, means = [moments.q[0]], [moments.mean[0]]
    _flatten(ops, moments, variances, means)
    parts: list[Any] = []
    end = 0
    for side in layout:
        q = variances[side.level]
        if isinstance(side.kind, type):
            values = _of_dual(side.kind, q)
        elif isinstance(side.kind, float):
            values = [side.kind * q]
        else:
            values = [means[side.kind], means[side.level]]
        numbers = jnp.moveaxis(jnp.stack(values, axis=1), -1, 0).reshape(q.shape[1], -1)  # (N, positions * count)
        parts += [jnp.zeros((q.shape[1], side.at - end), q.dtype), numbers]
        end = side.at + numbers.shape[1]
    count = moments.q[0].shape[1]
    last = 0 if unit is None else 2
    parts.append(jnp.zeros((count, size - last - end), moments.q[0].dtype))
    if unit is not None:
        parts += [(1 / unit)[:, None], jnp.zeros((count, 1), unit.dtype)]
    return jnp.concatenate(parts, axis=1)


def _flatten(ops: tuple[Op, ...], moments: Moments, variances: list[Any], means: list[Any]) -> None:
    """Moments after every operation, in the order of `unrolled`."""
    for i, op in enumerate(ops):
        if op.residual is not None:  # see `obstacle`: there are no other branches
            inner = moments.branches[i].branches[1]
            variances.append(inner.q[0])
            means.append(inner.mean[0])
            _flatten(op.residual, inner, variances, means)
        variances.append(moments.q[i + 1])
        means.append(moments.mean[i + 1])


def has_mean(step: Step, before: bool) -> bool:
    """Whether a field has a mean after a step that neither forks nor joins."""
    phi = step.nonlinearity
    if phi is not None:
        odd = isinstance(phi, duals.Erf | duals.Sin)
        return not odd and not (isinstance(phi, duals.PiecewiseLinear) and phi.slope == 1)
    return before and isinstance(step, Decouple)


def _of_dual(kind: type, q: ArrayLike) -> list[Any]:
    q = jnp.maximum(q, 0)
    root = jnp.sqrt(q)
    if kind is duals.PiecewiseLinear:
        normal = q > (1e-36 if q.dtype == jnp.float32 else 1e-300)
        return [root, jnp.where(normal, 0.5 / jnp.where(normal, root, 1), 0)]
    if kind is duals.Erf:
        wide, both = jnp.sqrt(1 + 4 * q), 1 + 2 * q
        cosine = jnp.sqrt(0.5 * (1 + wide / both))
        return [root, q, q / (both * cosine), cosine, jnp.sqrt(both), wide]
    if kind is duals.Gelu:
        return [root, q, 1 / (1 + q), _gelu_square(q)]
    return [q, jnp.exp(-q)]


def _gelu_square(q: ArrayLike) -> ArrayLike:
    """E[φ(u)²] for variance q, as the pair's formula gives it for u = v, so that equal inputs stay at distance 0."""
    delta = 1 + 2 * q
    root = jnp.sqrt(delta)
    p = 0.25 + jnp.arctan2(q, root) / (2 * math.pi)
    return q * p + q * q * (2 / (1 + q)) / (2 * math.pi * root)
