"""What the operations on pairs need of one input alone, computed once per input: variances, and functions of them.

The functions for each nonlinearity are those of `native/src/*.hpp`, in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from equitangents.kernels import duals
from equitangents.kernels.engines.reference.moments import Moments

DUAL_SIDES: dict[type, int] = {duals.PiecewiseLinear: 2, duals.Erf: 7, duals.Gelu: 4, duals.Sin: 2, duals.Cos: 2}


@dataclass(frozen=True)
class Side:
    """`count` numbers at every position of level `level`, from number `at` on among those of an input."""

    kind: type | float  # a dual activation, or the factor of the variance
    level: int
    count: int
    at: int


def sides(layout: tuple[Side, ...], size: int, moments: Moments) -> Any:
    """The numbers of N inputs, (N, size), from their moments, (positions, N) at every level."""
    parts: list[Any] = []
    end = 0
    for side in layout:
        q = moments.q[side.level]
        values = _of_dual(side.kind, q) if isinstance(side.kind, type) else [side.kind * q]
        numbers = jnp.moveaxis(jnp.stack(values, axis=1), -1, 0).reshape(q.shape[1], -1)  # (N, positions * count)
        parts += [jnp.zeros((q.shape[1], side.at - end), q.dtype), numbers]
        end = side.at + numbers.shape[1]
    count = moments.q[0].shape[1]
    parts.append(jnp.zeros((count, size - end), moments.q[0].dtype))
    return jnp.concatenate(parts, axis=1)


def _of_dual(kind: type, q: Any) -> list[Any]:
    q = jnp.maximum(q, 0)
    root = jnp.sqrt(q)
    if kind is duals.PiecewiseLinear:
        normal = q > (1e-36 if q.dtype == jnp.float32 else 1e-300)
        return [root, jnp.where(normal, 0.5 / jnp.where(normal, root, 1), 0)]
    if kind is duals.Erf:
        wide, both = jnp.sqrt(1 + 4 * q), 1 + 2 * q
        cosine = jnp.sqrt(0.5 * (1 + wide / both))
        half = 0.5 * jnp.arctan2(2 * q, wide)
        return [root, q, half, q / (both * cosine), cosine, jnp.sqrt(both), wide]
    if kind is duals.Gelu:
        return [root, q, 1 / (1 + q), _gelu_square(q)]
    return [q, jnp.exp(-q)]


def _gelu_square(q: Any) -> Any:
    """E[φ(u)²] for variance q, as the pair's formula gives it for u = v, so that equal inputs stay at distance 0."""
    delta = 1 + 2 * q
    root = jnp.sqrt(delta)
    p = 0.25 + jnp.arctan2(q, root) / (2 * math.pi)
    return q * p + q * q * (2 / (1 + q)) / (2 * math.pi * root)
