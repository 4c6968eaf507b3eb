"""Second moments q(p) = E[f(p)²] and means m(p) = E[f(p)] of one input's field before and after every operation.

They depend on one input only, so they are computed once per input rather than once per pair.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.windows import box_mean, pad_grid, table_mean
from equitangents.kernels.program import Affine, Box, Decouple, Dual, Op, Parallel, Standardise, Table
from equitangents.kernels.units import leaves_units


class Moments(NamedTuple):
    """`q[i]`, `mean[i]`: before operation i (the last entry: after all), each (positions, *batch).

    `branches[i]` are those inside operation i; of a `Parallel` these hold `branches` alone, one for each of its own.
    """

    q: list[Any]
    mean: list[Any]
    branches: list[Any]


def field_moments(
    ops: tuple[Op, ...], q: ArrayLike, mean: ArrayLike, tables: dict[str, Any], unit: Any = None
) -> Moments:
    """Moments along `ops`, none of which pools, of fields in units (*batch,) up to where these are left."""
    found = Moments([q], [mean], [])
    for op in ops:
        inner = None
        if unit is not None and leaves_units(op):
            q, unit = q * unit**2, None
        if isinstance(op, Box):
            grid = q.reshape(op.in_shape + q.shape[1:])
            axes = tuple((i,) for i in range(len(op.in_shape)))
            q = box_mean(pad_grid(grid, op, axes), op, axes).reshape((-1, *q.shape[1:]))
            mean = jnp.zeros_like(q)
        elif isinstance(op, Table):
            q = table_mean(q, op, tables)
            mean = jnp.zeros_like(q)
        elif isinstance(op, Affine):
            q = op.W_var * q + op.b_var
            mean = jnp.zeros_like(q)
        elif isinstance(op, Dual):
            q, mean = op.activation.moments(q)
        elif isinstance(op, Parallel):
            inner = Moments([], [], [field_moments(branch, q, mean, tables) for branch in op.branches])
            q, mean = joined(op, [own.q[-1] for own in inner.branches], [own.mean[-1] for own in inner.branches])
        elif isinstance(op, Standardise):
            q, mean = q / deviation(op, q) ** 2, jnp.zeros_like(q)
        elif not isinstance(op, Decouple):
            raise AssertionError(f"{op} cannot stand in a field")
        found.q.append(q)
        found.mean.append(mean)
        found.branches.append(inner)
    return found


def deviation(op: Standardise, q: ArrayLike) -> ArrayLike:
    """σ, (1, *batch), from the variances at all positions."""
    return jnp.sqrt(jnp.mean(q, axis=0, keepdims=True) + op.eps)


def joined(op: Parallel, qs: list[Any], means: list[Any]) -> tuple[Any, Any]:
    """Second moment and mean of branches that are added, or put side by side."""
    if op.shares is not None:
        q, mean = (sum(w * v for w, v in zip(op.shares, values, strict=True)) for values in (qs, means))
        return q, mean
    pairs = itertools.combinations(means, 2)
    return sum(qs) + sum(2 * m * n for m, n in pairs), sum(means)
