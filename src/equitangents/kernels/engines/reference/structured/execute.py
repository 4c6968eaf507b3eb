"""Runs structured programs over all pairs of positions, with the reference engine's rules for field programs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from equitangents.kernels.angular import moved, vanishing
from equitangents.kernels.branches import Join, Parallel, flat
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference.execute import Moments, field_moments
from equitangents.kernels.engines.reference.pairs import PairGeometry, pool_mean, pool_pairs
from equitangents.kernels.engines.reference.structured import mixing
from equitangents.kernels.engines.reference.structured.fields import (
    Pairs,
    Side,
    State,
    covariances,
    left,
    of_covariances,
    pointwise,
    right,
    thetas,
    variances,
)
from equitangents.kernels.operations import Box, Flatten, Pool, Table, WindowPool
from equitangents.kernels.program import Op
from equitangents.kernels.structured.masks import deciding
from equitangents.kernels.structured.program import (
    Attend,
    BlockSums,
    Drop,
    Fitted,
    Mix,
    Normalise,
    Times,
)
from equitangents.structured import SMALLER


@dataclass(frozen=True)
class Context:
    """What operations read beside the fields: tables, graphs (P, P, N), and which pairs of inputs are one input."""

    tables: dict[str, Any]
    graphs: tuple[Any, Any]
    same: Any  # (N1, N2) bool, or None where no input of one set is one of the other
    masks: str = SMALLER  # what windows make of missing positions


def tables_of(ops: tuple[Any, ...]) -> dict[str, Any]:
    """The tables that operations name by their keys."""
    return {key: jnp.asarray(table) for op in flat(ops) for key, table in op.tables.items()}


def execute(ops: tuple[Any, ...], states: tuple[State, ...], context: Context) -> tuple[State, ...]:
    """The fields after `ops`; there are several between branches and what joins them."""
    for op in ops:
        if isinstance(op, Parallel):
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
    parts = [states[i] for i in join.fields]
    return _sum(parts) if join.shares is None else _joined(parts, join.shares)


def _plain(op: Op, state: State, context: Context) -> State:
    """An operation of field programs that leaves positions apart."""
    steps = [field_moments((op,), s.q, s.mean, context.tables) for s in (state.one, state.other)]
    one, other = (
        Side(step.q[1], step.mean[1], _mask_after(op, s.mask, context.masks))
        for step, s in zip(steps, (state.one, state.other), strict=True)
    )

    def rule(pairs: Pairs, a: Side, b: Side, a2: Side, b2: Side) -> Pairs:
        first, second = (Moments([v.q, w.q], [v.mean, w.mean], [None]) for v, w in ((a, a2), (b, b2)))
        found = fields.execute((op,), PairGeometry(context.tables), fields.State(*pairs), first, second)
        return Pairs(found.e, found.theta)

    return pointwise(state, one, other, rule)


def _mask_after(op: Op, mask: Any, convention: str) -> Any:
    """A window's output is there where the position that decides it is."""
    if mask is None or not isinstance(op, Box | Table):
        return mask
    assert isinstance(op, Box)  # layers refuse masks on groups
    return mask[deciding(op, convention)]


def _pool(op: Pool | BlockSums | WindowPool, state: State, context: Context) -> State:
    masked = state.one.mask is not None
    if masked and op.box is not None:
        return mixing.window_pooled(op, state, context.masks)
    if isinstance(op, BlockSums) or (isinstance(op, Pool) and masked):
        return mixing.pooled(op, state, context.tables)
    return _pooled(op, state, context)


def _pooled(op: Pool | WindowPool | Flatten, state: State, context: Context) -> State:
    pool = partial(pool_pairs, op, tables=context.tables)
    ks, ts = (tuple(None if v is None else pool(v) for v in values) for values in (covariances(state), thetas(state)))
    means = tuple(pool_mean(op, side.mean, context.tables) for side in (state.one, state.other))
    masks = tuple(None if s.mask is None else s.mask.any(axis=0, keepdims=True) for s in (state.one, state.other))
    return of_covariances(ks, ts, means, masks)  # type: ignore[arg-type]


def _sum(states: list[State]) -> State:
    """Means add a cross term: E[(f + g)(f' + g')] = K_f + K_g + m_f m_g' + m_g m_f'."""
    one, other = (_sum_of_sides([getattr(s, name) for s in states]) for name in ("one", "other"))

    def total(own: str, whole1: Side, whole2: Side, first: Any, second: Any) -> Pairs | None:
        if getattr(states[0], own) is None:
            return None
        after = variances(whole1, whole2)
        e = sum(moved(getattr(s, own).e, variances(first(s), second(s)), after.to) for s in states)
        gaps = [after.gap(first(s).mean[:, None], second(s).mean[None]) for s in states]
        e = e + sum(2 * m * n for m, n in itertools.combinations(gaps, 2))
        return Pairs(vanishing(e, after), sum(getattr(s, own).theta for s in states))

    own1 = total("own1", one, one, lambda s: s.one, lambda s: s.one)
    own2 = total("own2", other, other, lambda s: s.other, lambda s: s.other)
    cross = total("cross", left(one), right(other), lambda s: left(s.one), lambda s: right(s.other))
    assert own1 is not None
    assert own2 is not None
    return State(one, other, own1, own2, cross)


def _sum_of_sides(sides: list[Side]) -> Side:
    q = sum(s.q for s in sides) + sum(2 * s.mean * t.mean for s, t in itertools.combinations(sides, 2))
    return Side(q, sum(s.mean for s in sides), sides[0].mask)


def _joined(states: list[State], shares: tuple[float, ...]) -> State:
    def mean(parts: list[Any]) -> Any:
        return None if parts[0] is None else sum(w * v for w, v in zip(shares, parts, strict=True))

    def side(name: str) -> Side:
        parts = [getattr(s, name) for s in states]
        return Side(mean([p.q for p in parts]), mean([p.mean for p in parts]), parts[0].mask)

    one, other = side("one"), side("other")

    def pairs(name: str, whole1: Side, whole2: Side, first: Any, second: Any) -> Pairs | None:
        parts = [getattr(s, name) for s in states]
        if parts[0] is None:
            return None
        after = variances(whole1, whole2)
        es = [moved(p.e, variances(first(s), second(s)), after.to) for p, s in zip(parts, states, strict=True)]
        return Pairs(vanishing(mean(es), after), mean([p.theta for p in parts]))

    own1 = pairs("own1", one, one, lambda s: s.one, lambda s: s.one)
    own2 = pairs("own2", other, other, lambda s: s.other, lambda s: s.other)
    assert own1 is not None
    assert own2 is not None
    cross = pairs("cross", left(one), right(other), lambda s: left(s.one), lambda s: right(s.other))
    return State(one, other, own1, own2, cross)


def _times(op: Times, state: State, context: Context) -> State:
    square = op.factor**2
    one, other = (Side(square * s.q, op.factor * s.mean, s.mask) for s in (state.one, state.other))
    return pointwise(state, one, other, lambda p, a, b, a2, b2: Pairs(square * p.e, square * p.theta))


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

    sides = state.one, state.other
    found = [statistics(side) for side in sides]
    roots = [jnp.sqrt(jnp.maximum(v, 0) + op.eps) for _, v in found]
    means = tuple((s.mean - m) / r for s, (m, _), r in zip(sides, found, roots, strict=True))
    ks: list[Any] = []
    ts: list[Any] = []
    for k, theta, (i, j), (first, second) in zip(
        covariances(state),
        thetas(state),
        ((0, 0), (1, 1), (0, 1)),
        ((_same, _same), (_same, _same), (left, right)),
        strict=True,
    ):
        if k is None:
            ks.append(None)
            ts.append(None)
            continue
        mu, mu2 = first(found[i][0])[:, None], second(found[j][0])[None]
        m, m2 = first(sides[i].mean)[:, None], second(sides[j].mean)[None]
        scale = first(roots[i])[:, None] * second(roots[j])[None]
        ks.append((k - mu * m2 - m * mu2 + mu * mu2) / scale)
        ts.append(theta / scale)
    return of_covariances(tuple(ks), tuple(ts), means, (sides[0].mask, sides[1].mask))


def _same(value: Any) -> Any:
    return value


def _dropped(op: Drop, state: State, context: Context) -> State:
    """Each position of each input has a draw of its own: K and Θ grow by 1/keep where a draw meets itself."""
    surplus = 1 / op.keep - 1

    def grown(values: Any, same: Any) -> Any:
        if values is None or same is None:
            return values
        diagonal = jnp.eye(values.shape[0], dtype=values.dtype).reshape(values.shape[:2] + (1,) * (values.ndim - 2))
        return values * (1 + surplus * diagonal * same)

    marks = 1.0, 1.0, None if context.same is None else context.same.astype(state.one.q.dtype)
    ks, ts = (
        tuple(grown(v, mark) for v, mark in zip(values, marks, strict=True))
        for values in (covariances(state), thetas(state))
    )
    means, masks = (state.one.mean, state.other.mean), (state.one.mask, state.other.mask)
    return of_covariances(ks, ts, means, masks)


def _fitted(op: Fitted, state: State, context: Context) -> State:
    return (mixing.fitted_pools if op.pools else mixing.fitted_means)(op, state)


_RULES: dict[type, Any] = {
    Times: _times,
    Normalise: _normalised,
    Drop: _dropped,
    Attend: lambda op, state, context: mixing.attended(op, state),
    Mix: lambda op, state, context: mixing.aggregated(op, state, context.graphs),
    Fitted: _fitted,
    Pool: _pool,
    BlockSums: _pool,
    WindowPool: _pool,
    Flatten: _pooled,
}
