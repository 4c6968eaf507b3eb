"""Runs structured programs over all pairs of positions, with the reference engine's rules for field programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.branches import Join, Parallel, flat
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference import structured_fields as states
from equitangents.kernels.engines.reference.execute import Moments, field_moments, joined, joined_angles, shared
from equitangents.kernels.engines.reference.pairs import PairGeometry, pool_mean, pool_pairs
from equitangents.kernels.engines.reference.structured_fields import (
    Ends,
    Pairs,
    Side,
    State,
    Values,
    covariances,
    left,
    merged,
    of_covariances,
    pointwise,
    right,
    thetas,
    variances,
)
from equitangents.kernels.operations import Box, Flatten, Pool, WindowPool
from equitangents.kernels.program import Op
from equitangents.kernels.structured import (
    Attend,
    BlockSums,
    Drop,
    Fitted,
    Mix,
    Normalise,
    Times,
    deciding,
)
from equitangents.structured import SMALLER


@dataclass(frozen=True)
class Context:
    """Context of operations: tables, graphs (P, P, N) of each set of inputs, and which pairs of inputs
    are one input.
    """

    tables: dict[str, Any]
    graphs: tuple[Any, ...]
    same: Any  # (N1, N2) bool, or None where no input of one set is one of the other
    masks: str = SMALLER  # what windows make of missing positions


def tables_of(ops: tuple[Any, ...]) -> dict[str, Any]:
    """The tables that operations name by their keys."""
    return {key: jnp.asarray(table) for op in flat(ops) for key, table in op.tables.items()}


def execute(ops: tuple[Any, ...], states: tuple[State, ...], context: Context) -> tuple[State, ...]:
    """The fields after `ops`; there are several between branches and what joins them."""
    for op in ops:
        if op.is_branching:
            states = _parallel(op, states, context)
        else:
            states = (_RULES.get(type(op), _plain)(op, states[0], context),)
    return states


def _parallel(op: Parallel, states: tuple[State, ...], context: Context) -> tuple[State, ...]:
    if op.branches:
        each = zip(op.branches, states * len(op.branches) if len(states) == 1 else states, strict=True)
        states = tuple(found for branch, state in each for found in execute(branch, (state,), context))
    return tuple(_join(join, states) for join in op.joins) or states


def _join(join: Join, states: tuple[State, ...]) -> State:
    """The sum of some fields, or their channels side by side."""
    parts = tuple(states[i] for i in join.fields)

    def rule(pairs: list[Pairs], before: list[Ends], whole: Ends) -> Pairs:
        ends = [variances(*sides) for sides in before]
        means = ((a.mean[:, None], b.mean[None]) for a, b in before)
        e = joined_angles(join.shares, [p.e for p in pairs], ends, means, variances(*whole))
        return Pairs(e, shared(join.shares, [p.theta for p in pairs]))

    sides = zip(*(state.sides for state in parts), strict=True)
    found = (Side(*joined(join.shares, [s.q for s in own], [s.mean for s in own]), own[0].mask) for own in sides)
    return merged(parts, tuple(found), rule)


def _plain(op: Op, state: State, context: Context) -> State:
    """An operation of field programs that leaves positions apart."""
    steps = [field_moments((op,), s.q, s.mean, context.tables) for s in state.sides]
    sides = tuple(
        Side(step.q[1], step.mean[1], _mask_after(op, s.mask, context.masks))
        for step, s in zip(steps, state.sides, strict=True)
    )

    def rule(pairs: Pairs, before: Ends, after: Ends) -> Pairs:
        moments = (Moments([v.q, w.q], [v.mean, w.mean], [None]) for v, w in zip(before, after, strict=True))
        found = fields.execute((op,), PairGeometry(context.tables), fields.State(*pairs), *moments)
        return Pairs(found.e, found.theta)

    return pointwise(state, sides, rule)


def _mask_after(op: Op, mask: Any, convention: str) -> Any:
    """A window's output is there where the position that decides it is."""
    if mask is None or not op.is_window:
        return mask
    assert isinstance(op, Box)  # layers refuse masks on groups
    return mask[deciding(op, convention)]


def _pool(op: Pool, state: State, context: Context) -> State:
    return (_pooled if state.sides[0].mask is None else _summed)(op, state, context)


def _window_pool(op: WindowPool, state: State, context: Context) -> State:
    if state.sides[0].mask is None:
        return _pooled(op, state, context)
    return states.window_pooled(op, state, context.masks)


def _summed(op: Pool | BlockSums, state: State, context: Context) -> State:
    """Sums, or means over existing positions."""
    if state.sides[0].mask is not None and op.box is not None:
        return states.window_pooled(op, state, context.masks)
    return states.pooled(op, state, context.tables)


def _pooled(op: Pool | WindowPool | Flatten, state: State, context: Context) -> State:
    pool = partial(pool_pairs, op, tables=context.tables)
    ks, ts = (values.map(pool) for values in (covariances(state), thetas(state)))
    means = tuple(pool_mean(op, side.mean, context.tables) for side in state.sides)
    masks = tuple(None if s.mask is None else s.mask.any(axis=0, keepdims=True) for s in state.sides)
    return of_covariances(ks, ts, means, masks)


def _times(op: Times, state: State, context: Context) -> State:
    square = op.factor**2
    sides = tuple(Side(square * s.q, op.factor * s.mean, s.mask) for s in state.sides)
    return pointwise(state, sides, lambda pairs, before, after: Pairs(square * pairs.e, square * pairs.theta))


def _normalised(op: Normalise, state: State, context: Context) -> State:
    """K' = (K - μ m' - m μ' + μ μ')/(σ σ'), with μ and σ² of each position, or of all together."""

    def statistics(side: Side) -> tuple[Any, Any]:
        if not op.positions:
            return side.mean, side.q - side.mean**2
        mask = jnp.ones_like(side.q) if side.mask is None else side.mask.astype(side.q.dtype)
        count = jnp.maximum(together(mask), 1)
        mean = together(mask * side.mean) / count
        return mean, together(mask * side.q) / count - mean**2

    def together(values: Any) -> Any:
        """Sums over all positions, or over those of each position's group."""
        if op.groups is None:
            return values.sum(axis=0, keepdims=True)
        alike = op.groups.array[:, None] == op.groups.array
        return jnp.tensordot(jnp.asarray(alike, values.dtype), values, axes=1, precision="highest")

    sides = state.sides
    found = [(s.mean, *statistics(s)) for s in sides]
    whole = [(m, mu, jnp.sqrt(jnp.maximum(v, 0) + op.eps)) for m, mu, v in found]
    means = tuple((m - mu) / r for m, mu, r in whole)

    def scaled(k: ArrayLike, theta: ArrayLike, first: Any, second: Any) -> tuple[ArrayLike, ArrayLike]:
        (m, mu, r), (m2, mu2, r2) = (v[:, None] for v in first), (v[None] for v in second)
        scale = r * r2
        return (k - mu * m2 - m * mu2 + mu * mu2) / scale, theta / scale

    ks, ts = covariances(state), thetas(state)
    own = [scaled(k, t, w, w) for k, t, w in zip(ks.own, ts.own, whole, strict=True)]
    cross = (None, None) if ks.cross is None else scaled(ks.cross, ts.cross, left(whole[0]), right(whole[-1]))
    new_ks, new_ts = (Values(tuple(o[i] for o in own), cross[i]) for i in range(2))
    return of_covariances(new_ks, new_ts, means, tuple(s.mask for s in sides))


def _dropped(op: Drop, state: State, context: Context) -> State:
    """Each position of each input has a draw of its own: K and Θ grow by 1/keep where a draw meets itself."""
    surplus = 1 / op.keep - 1

    def grown(values: Any, same: Any) -> Any:
        diagonal = jnp.eye(values.shape[0], dtype=values.dtype).reshape(values.shape[:2] + (1,) * (values.ndim - 2))
        return values * (1 + surplus * diagonal * same)

    def all_grown(values: Values) -> Values:
        own, cross = values
        if cross is not None and context.same is not None:
            cross = grown(cross, context.same.astype(cross.dtype))
        return Values(tuple(grown(v, 1.0) for v in own), cross)

    means, masks = (tuple(getattr(s, name) for s in state.sides) for name in ("mean", "mask"))
    return of_covariances(all_grown(covariances(state)), all_grown(thetas(state)), means, masks)


def _fitted(op: Fitted, state: State, context: Context) -> State:
    return (states.fitted_pools if op.pools else states.fitted_means)(op, state)


_RULES: dict[type, Any] = {
    Times: _times,
    Normalise: _normalised,
    Drop: _dropped,
    Attend: lambda op, state, context: states.attended(op, state),
    Mix: lambda op, state, context: states.aggregated(op, state, context.graphs),
    Fitted: _fitted,
    Pool: _pool,
    BlockSums: _summed,
    WindowPool: _window_pool,
    Flatten: _pooled,
}
