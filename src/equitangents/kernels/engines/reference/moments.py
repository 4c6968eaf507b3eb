"""Second moments q(p) = E[f(p)²] and means m(p) = E[f(p)] of one input's field before and after every operation.

They depend on one input only, so they are computed once per input rather than once per pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from equitangents.kernels.engines.reference.windows import box_mean, pad_grid, table_mean
from equitangents.kernels.program import Affine, Box, Branch, Decouple, Dual, Op, Table


class Moments(NamedTuple):
    """`q[i]`, `mean[i]`: before operation i (the last entry: after all), each (positions, *batch)."""

    q: list[Any]
    mean: list[Any]
    branches: list[Any]


def field_moments(ops: tuple[Op, ...], q: Any, mean: Any, tables: dict[str, Any]) -> Moments:
    """Moments along `ops`, none of which pools."""
    found = Moments([q], [mean], [])
    for op in ops:
        inner = None
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
        elif isinstance(op, Branch):
            inner = field_moments(op.ops, q, mean, tables)
            q, mean = q + inner.q[-1] + 2 * mean * inner.mean[-1], mean + inner.mean[-1]
        elif not isinstance(op, Decouple):
            raise AssertionError(f"{op} cannot stand in a field")
        found.q.append(q)
        found.mean.append(mean)
        found.branches.append(inner)
    return found
