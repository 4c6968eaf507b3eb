"""All pairs of positions: for networks whose pooling or padding mixes fibres."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike, DType
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.execute import Moments, State, execute, field_moments, joined
from equitangents.kernels.engines.reference.windows import box_mean, pad_grid, table_mean_pairs, window_averages
from equitangents.kernels.program import Box, Flatten, Op, Parallel, Pool, Table, WindowPool

AnyPool = Pool | WindowPool | Flatten


@dataclass
class PairGeometry:
    """Fields over (p, p', *batch); batch axes are already aligned."""

    tables: dict[str, Any]
    carry: Carry = DISTANCE

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
        """Both positions slide together; where one read falls outside, K = 0 and D is the other's variance."""
        n = len(op.in_shape)
        axes = tuple((j, n + j) for j in range(n))
        d, theta = (x.reshape(op.in_shape + op.in_shape + x.shape[2:]) for x in state)
        padded = State(pad_grid(d, op, axes), pad_grid(theta, op, axes))
        if not op.wrap and (any(op.low) or any(op.high)):
            inside = np.pad(np.ones(op.in_shape, bool), list(zip(op.low, op.high, strict=True)))
            batch = (1,) * (d.ndim - 2 * n)
            both = (inside.reshape(inside.shape + (1,) * n) & inside).reshape(inside.shape * 2 + batch)
            single = tuple((j,) for j in range(n))
            first = pad_grid(q1.reshape(op.in_shape + q1.shape[1:]), op, single)
            second = pad_grid(q2.reshape(op.in_shape + q2.shape[1:]), op, single)
            first = first.reshape(inside.shape + (1,) * n + q1.shape[1:])
            padded = State(
                jnp.where(both, padded.d, self.carry.unrelated(first, second)), jnp.where(both, padded.theta, 0)
            )
        out = int(np.prod(op.out_shape, dtype=np.int64))
        return State(*(box_mean(x, op, axes).reshape((out, out, *x.shape[2 * n :])) for x in padded))

    def table(self, i: int, op: Table, state: State) -> State:
        """Both positions move along the window together."""
        return State(*(table_mean_pairs(x, op, self.tables) for x in state))

    def pool(self, i: int, op: AnyPool, state: State, m1: Moments, m2: Moments) -> State:
        """Covariances are pooled, and D formed anew from them."""
        k = pool_pairs(op, self.carry.covariance(state.d, m1.q[i][:, None], m2.q[i][None]), self.tables)
        theta = pool_pairs(op, state.theta, self.tables)
        return State(self.carry.of_covariance(k, m1.q[i + 1][:, None], m2.q[i + 1][None]), theta)

    def decouple(self, i: int, state: State, q1: ArrayLike, q2: ArrayLike) -> State:
        """Only the diagonal survives."""
        n = state.d.shape[0]
        same = jnp.eye(n, dtype=bool).reshape((n, n) + (1,) * (state.d.ndim - 2))
        return State(jnp.where(same, state.d, self.carry.unrelated(q1, q2)), jnp.where(same, state.theta, 0))


def averaging(op: AnyPool, positions: int, dtype: DType, tables: dict[str, Any]) -> Any:
    """The matrix (blocks, positions) that averages over each block."""
    if isinstance(op, WindowPool):
        return jnp.asarray(window_averages(op.box), dtype)
    assert isinstance(op, Pool)
    member = (tables[op.labels.key] == jnp.arange(op.blocks)[:, None]).astype(dtype)
    return member / member.sum(axis=1, keepdims=True)


def pool_pairs(op: AnyPool, k: ArrayLike, tables: dict[str, Any]) -> ArrayLike:
    """Pooled covariances: the mean over A × A', or over equal positions for a flattening."""
    if isinstance(op, Flatten):
        return jnp.mean(jnp.diagonal(k, axis1=0, axis2=1), axis=-1)[None, None]
    matrix = averaging(op, k.shape[0], k.dtype, tables)
    half = jnp.tensordot(matrix, k, axes=1, precision=lax.Precision.HIGHEST)
    return jnp.moveaxis(jnp.tensordot(matrix, half, axes=(1, 1), precision=lax.Precision.HIGHEST), 0, 1)


def self_moments(ops: tuple[Op, ...], d: ArrayLike, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> Moments:
    """Moments of one input along `ops`, with pooling, which needs its own covariances at all pairs of positions.

    `d` is (positions, positions, N), `q` and `mean` are (positions, N).
    """
    moments, _ = _self_moments(ops, State(d, jnp.zeros_like(d)), q, mean, tables)
    return moments


def _self_moments(
    ops: tuple[Op, ...], state: State, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]
) -> tuple[Moments, State]:
    geometry = PairGeometry(tables)
    found = Moments([q], [mean], [])
    for op in ops:
        inner = None
        if isinstance(op, Pool | WindowPool | Flatten):
            k = pool_pairs(op, DISTANCE.covariance(state.d, q[:, None], q[None]), tables)
            mean = pool_mean(op, mean, tables)
            q = jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0)
            state = State(DISTANCE.of_covariance(k, q[:, None], q[None]), jnp.zeros_like(k))
        elif isinstance(op, Parallel):
            each = [_self_moments(branch, state, q, mean, tables) for branch in op.branches]
            inner = Moments([], [], [own for own, _ in each])
            means = [own.mean[-1] for own, _ in each]
            shares = op.shares or (1.0,) * len(each)
            d = sum(w * branch.d for w, (_, branch) in zip(shares, each, strict=True))
            if op.shares is None:
                for m, n in itertools.combinations(means, 2):
                    d = d + 2 * (m[:, None] - m[None]) * (n[:, None] - n[None])
            q, mean = joined(op, [own.q[-1] for own, _ in each], means)
            state = State(d, jnp.zeros_like(d))
        else:
            after, new_mean = _next_variance(op, q, tables)
            step = Moments([q, after], [mean, new_mean], [None])
            state = execute((op,), geometry, state, step, step)
            state = State(state.d, jnp.zeros_like(state.d))
            q, mean = after, new_mean
        found.q.append(q)
        found.mean.append(mean)
        found.branches.append(inner)
    return found, state


def _next_variance(op: Op, q: ArrayLike, tables: dict[str, Any]) -> tuple[Any, Any]:
    step = field_moments((op,), q, jnp.zeros_like(q), tables)
    return step.q[-1], step.mean[-1]


def pool_mean(op: AnyPool, mean: ArrayLike, tables: dict[str, Any]) -> ArrayLike:
    """Means E[f(p)] after pooling: over each block, or over all positions for a flattening."""
    if isinstance(op, Flatten):
        return jnp.mean(mean, axis=0, keepdims=True)
    matrix = averaging(op, mean.shape[0], mean.dtype, tables)
    return jnp.tensordot(matrix, mean, axes=1, precision=lax.Precision.HIGHEST)
