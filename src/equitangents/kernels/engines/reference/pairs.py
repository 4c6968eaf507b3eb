"""All pairs of positions: for networks whose pooling or padding mixes fibres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike, DType
from equitangents.kernels.angular import Both, both, covariance, moved, of_covariance, vanishing
from equitangents.kernels.branches import flat
from equitangents.kernels.engines.reference.execute import (
    At,
    Moments,
    State,
    field_moments,
    joined,
    joined_angles,
    run,
    uncoupled,
)
from equitangents.kernels.engines.reference.windows import (
    box_mean,
    box_mean_of_angles,
    box_variances,
    pad_grid,
    table_mean_pairs,
    table_mean_pairs_of_angles,
    window_averages,
)
from equitangents.kernels.operations import Box, Flatten, Pool, Table, WindowPool
from equitangents.kernels.program import Op

AnyPool = Pool | WindowPool | Flatten


@dataclass
class PairGeometry:
    """Fields over (p, p', *batch); batch axes are already aligned."""

    tables: dict[str, Any]

    def inner(self, i: int, branch: int) -> PairGeometry:
        """Branches carry all pairs too."""
        return self

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the first position p of every pair."""
        return values[:, None]

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the second position p' of every pair."""
        return values[None]

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Both positions slide together; where one read falls outside, K = Θ = 0."""
        n = len(op.in_shape)
        axes = tuple((j, n + j) for j in range(n))
        single = tuple((j,) for j in range(n))
        padded = state.map(lambda x: pad_grid(x.reshape(op.in_shape + op.in_shape + x.shape[2:]), op, axes))
        first, second = (pad_grid(q.reshape(op.in_shape + q.shape[1:]), op, single) for q in (q1, q2))
        at = both(first.reshape(first.shape[:n] + (1,) * n + first.shape[n:]), second[(None,) * n])
        if not op.wrap and (any(op.low) or any(op.high)):
            inside = np.pad(np.ones(op.in_shape, bool), list(zip(op.low, op.high, strict=True)))
            batch = (1,) * (padded.theta.ndim - 2 * n)
            joint = (inside.reshape(inside.shape + (1,) * n) & inside).reshape(inside.shape * 2 + batch)
            padded = uncoupled(padded, ~joint, at)
        out = int(np.prod(op.out_shape, dtype=np.int64))
        variances = box_variances(at, op, axes)
        means = padded.angles(lambda e: box_mean_of_angles(e, variances, op, axes))
        means = means._replace(theta=box_mean(padded.theta, op, axes))
        return means.map(lambda x: x.reshape((out, out, *x.shape[2 * n :])))

    def table(self, op: Table, state: State, before: Both, after: Both) -> State:
        """Both positions move along the window together."""
        e = table_mean_pairs_of_angles(state.e, before, after, op, self.tables)
        return State(e, table_mean_pairs(state.theta, op, self.tables))

    def pool(self, i: int, op: AnyPool, state: State, m1: Moments, m2: Moments) -> State:
        """Pool covariances and form E from them; for flattened fields, means of distances."""
        before, after = (both(m1.q[level][:, None], m2.q[level][None]) for level in (i, i + 1))
        theta = pool_pairs(op, state.theta, self.tables)
        if op.is_diagonal:
            return State(vanishing(pool_pairs(op, moved(state.e, before, after.to), self.tables), after), theta)
        return State(of_covariance(pool_pairs(op, covariance(state.e, before), self.tables), after), theta)

    def decouple(self, i: int, state: State, at: Both) -> State:
        """Only the diagonal survives."""
        n = state.e.shape[0]
        same = jnp.eye(n, dtype=bool).reshape((n, n) + (1,) * (state.e.ndim - 2))
        return uncoupled(state, ~same, at)


def averaging(op: AnyPool, positions: int, dtype: DType, tables: dict[str, Any]) -> Any:
    """The matrix (blocks, positions) that averages over each block."""
    if isinstance(op, WindowPool):
        return jnp.asarray(window_averages(op.box), dtype)
    assert isinstance(op, Pool)
    member = (tables[op.labels.key] == jnp.arange(op.blocks)[:, None]).astype(dtype)
    return member / member.sum(axis=1, keepdims=True)


def pool_pairs(op: AnyPool, k: ArrayLike, tables: dict[str, Any]) -> ArrayLike:
    """Pooled covariances: the mean over A × A', or over equal positions for a flattening."""
    if op.is_diagonal:
        return jnp.mean(jnp.diagonal(k, axis1=0, axis2=1), axis=-1)[None, None]
    matrix = averaging(op, k.shape[0], k.dtype, tables)
    half = jnp.tensordot(matrix, k, axes=1, precision=lax.Precision.HIGHEST)
    return jnp.moveaxis(jnp.tensordot(matrix, half, axes=(1, 1), precision=lax.Precision.HIGHEST), 0, 1)


def self_moments(ops: tuple[Op, ...], e: ArrayLike, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> Moments:
    """Moments of one input along `ops`, with pooling, which needs its own covariances at all pairs of positions.

    `e` is (positions, positions, N), `q` and `mean` are (positions, N).
    """
    moments, _ = _self_moments(ops, e, q, mean, tables, onwards=False)
    return moments


def _self_moments(
    ops: tuple[Op, ...], e: Any, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any], onwards: bool
) -> tuple[Moments, Any]:
    """(Moments, E at the end), the latter where it is read: up to the last pooling, or `onwards`."""
    geometry = PairGeometry(tables)
    found = Moments([q], [mean], [])
    for i, op in enumerate(ops):
        inner = None
        read = onwards or any(later.is_pool for later in flat(ops[i + 1 :]))
        if isinstance(op, AnyPool):
            k = pool_pairs(op, covariance(e, both(q[:, None], q[None])), tables)
            q, mean = jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), pool_mean(op, mean, tables)
            e = of_covariance(k, both(q[:, None], q[None])) if read else None
        elif op.is_branching:
            each = [_self_moments(branch, e, q, mean, tables, onwards=read) for branch in op.held]
            inner = Moments([], [], [own for own, _ in each])
            q, mean = joined(op.shares, [own.q[-1] for own, _ in each], [own.mean[-1] for own, _ in each])
            ends = [both(own.q[-1][:, None], own.q[-1][None]) for own, _ in each]
            means = ((own.mean[-1][:, None], own.mean[-1][None]) for own, _ in each)
            after = both(q[:, None], q[None])
            e = joined_angles(op.shares, [own for _, own in each], ends, means, after) if read else None
        else:
            step = field_moments((op,), q, mean, tables)
            q, mean = step.q[-1], step.mean[-1]
        for values, value in zip(found, (q, mean, inner), strict=True):
            values.append(value)
        if read and not (op.is_pool or op.held):
            e = run(op, State(e, jnp.zeros_like(e)), At(i, geometry, found, found, {})).e
    return found, e


def pool_mean(op: AnyPool, mean: ArrayLike, tables: dict[str, Any]) -> ArrayLike:
    """Means E[f(p)] after pooling: over each block, or over all positions for a flattening."""
    if op.is_diagonal:
        return jnp.mean(mean, axis=0, keepdims=True)
    matrix = averaging(op, mean.shape[0], mean.dtype, tables)
    return jnp.tensordot(matrix, mean, axes=1, precision=lax.Precision.HIGHEST)
