"""Runs structured programs over all pairs of positions, with the reference engine's rules for field programs.

In tiles of pairs of inputs, in double precision. Of their kernel fields, the pairs of positions at their end, one pair
of inputs runs after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines.protocol import Pair, StructuredRules
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference import structured_fields as states
from equitangents.kernels.engines.reference.execute import (
    Moments,
    field_moments,
    joined,
    joined_angles,
    shared,
)
from equitangents.kernels.engines.reference.geometries import (
    PairGeometry,
    pool_mean,
    pool_pairs,
)
from equitangents.kernels.engines.reference.structured_fields import (
    Ends,
    Pairs,
    Side,
    State,
    Values,
    covariances,
    ends,
    kernels_of,
    merged,
    of_covariances,
    pointwise,
    state_of_inputs,
    thetas,
    variances,
)
from equitangents.kernels.engines.reference.tile import TILE_ELEMENTS
from equitangents.kernels.fields import MATRIX, Part
from equitangents.kernels.operations import Box, Flatten, Pool, WindowPool
from equitangents.kernels.program import Join, Op, Parallel, flat
from equitangents.kernels.structured import (
    Attend,
    Batch,
    BlockSums,
    Drop,
    Fitted,
    Mix,
    Normalise,
    StructuredProgram,
    Times,
    deciding,
    positions,
    typed,
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
        moments = (Moments([v.q, w.q], [v.mean, w.mean], [[]]) for v, w in zip(before, after, strict=True))
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
    ks, ts = (tuple(map(pool, values)) for values in (covariances(state), thetas(state)))
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

    each = zip(covariances(state), thetas(state), ends(tuple(whole)), strict=False)
    ks, ts = zip(*(scaled(k, t, *both) for k, t, both in each), strict=True)
    return of_covariances(ks, ts, means, tuple(s.mask for s in sides))


def _dropped(op: Drop, state: State, context: Context) -> State:
    """Each position of each input has a draw of its own: K and Θ grow by 1/keep where a draw meets itself."""
    surplus = 1 / op.keep - 1

    def grown(values: Any, same: Any) -> Any:
        diagonal = jnp.eye(values.shape[0], dtype=values.dtype).reshape(values.shape[:2] + (1,) * (values.ndim - 2))
        return values * (1 + surplus * diagonal * same)

    def all_grown(values: Values) -> Values:
        same = (*(1.0 for _ in state.sides), None if context.same is None else context.same.astype(values[0].dtype))
        return tuple(v if at is None else grown(v, at) for v, at in zip(values, same, strict=False))

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


_FIELDS = 16  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile


class TiledStructured(StructuredRules):
    """Every structured program, and its kernel fields, in pure JAX."""

    def obstacle(self, program: StructuredProgram) -> str | None:
        return None

    def kernels(self, program: StructuredProgram, one: Batch, other: Batch | None) -> Pair:
        return tiled(program, one, other, None, np.float64)

    def diagonal(self, program: StructuredProgram, batch: Batch) -> Pair:
        return own(program, batch, None)

    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of one tile."""
        return _side(program) ** 2 * positions(program) ** 2 * _FIELDS * 8


def _side(program: StructuredProgram) -> int:
    """Inputs on each side of a tile; raises MemoryLimitError if even one pair is too large."""
    field = positions(program) ** 2
    needed = field * _FIELDS * 8
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError("one pair of inputs", needed, _MEMORY_LIMIT, "use smaller inputs, or pool before")
    return max(1, int((TILE_ELEMENTS // field) ** 0.5))


def tiled(
    program: StructuredProgram,
    one: Batch,
    other: Batch | None,
    part: Part | None,
    dtype: DType,
    wanted: np.ndarray | None = None,
) -> Pair:
    """(NNGP, NTK) between two sets of inputs (None: the first with itself), (N1, N2), or a part of their field.

    Of `wanted` pairs, (N1, N2), alone: others may be zero.
    """
    layout, second = MATRIX if part is None else part.layout, one if other is None else other
    symmetric = other is None and (part is None or part.mirrors)
    most = _side(program) if part is None else 1
    n1, n2 = len(one.x), len(second.x)
    rows, columns = min(most, n1), min(most, n2)
    nngp, ntk = layout.zeros((n1, n2), dtype), layout.zeros((n1, n2), dtype)
    with precision.scope(np.float64), np.errstate(over="ignore", under="ignore"):
        for i in range(0, n1, most):
            for j in range(i if symmetric else 0, n2, most):
                r, c = slice(i, min(i + most, n1)), slice(j, min(j + most, n2))
                if wanted is not None and not wanted[r, c].any():
                    continue
                same = np.eye(rows, columns) > (0 if other is None and i == j else 1)
                found = _compiled(program, part, (_filled(one.rows(r), rows), _filled(second.rows(c), columns)), same)
                for out, values in zip((nngp, ntk), found, strict=True):
                    layout.write(out, r, c, values, symmetric)
    return nngp, ntk


def own(program: StructuredProgram, batch: Batch, part: Part | None) -> Pair:
    """(NNGP, NTK) of every input with itself, (N,), or a part of its field, (N, *part.layout.tail)."""
    size = _side(program) ** 2 if part is None else 1
    found = [np.zeros((2, 0, *(() if part is None else part.layout.tail)))]
    with precision.scope(np.float64):
        for i in range(0, len(batch.x), size):
            rows = _filled(batch.rows(slice(i, i + size)), min(size, len(batch.x)))
            found.append(np.stack([np.asarray(v) for v in _compiled(program, part, (rows,))]))
    nngp, ntk = np.concatenate(found, axis=1)[:, : len(batch.x)]
    return nngp, ntk


def traced(program: StructuredProgram, batches: tuple[Batch, ...], part: Part | None, dtype: DType) -> Pair:
    """As `own` of one set of inputs, or as `tiled` of two, in one tile inside a JAX program.

    Where both are the same object, they are one set of inputs with itself.
    """
    same = jnp.eye(len(batches[0].x), dtype=bool) if len(batches) == 2 and batches[0] is batches[1] else None
    return _kernels(program, part, tuple(typed(batch, dtype) for batch in batches), same)


def _filled(batch: Batch, size: int) -> Batch:
    """In double precision, with copies of the last input up to `size`, so that equal shapes compile once."""

    def fill(values: ArrayLike | None, dtype: DType) -> np.ndarray | None:
        if values is None:
            return None
        values = np.asarray(values, dtype)
        return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])

    return Batch(fill(batch.x, np.float64), fill(batch.mask, bool), fill(batch.graphs, np.float64))


def _kernels(
    program: StructuredProgram, part: Part | None, batches: tuple[Batch, ...], same: jax.Array | None = None
) -> Pair:
    """(NNGP, NTK) of inputs with themselves, (N,), or between two sets, (N1, N2); of a part (…, *part.layout.tail)."""
    xs = tuple(jnp.swapaxes(jnp.asarray(b.x), 0, 1) for b in batches)
    graphs = tuple(None if b.graphs is None else jnp.moveaxis(jnp.asarray(b.graphs), 0, -1) for b in batches)
    context = Context(tables_of(program.ops), graphs, same, program.space.masks)
    (end,) = execute(program.ops, (state_of_inputs(xs, tuple(b.mask for b in batches)),), context)
    nngp, ntk = kernels_of(end)[-1]
    return _picked(part, nngp), _picked(part, ntk)


_compiled = jax.jit(_kernels, static_argnums=(0, 1))


def _picked(part: Part | None, values: jax.Array) -> jax.Array:
    """From (P, P', *inputs) the one position that is left, or the wanted pairs of positions: (*inputs, *tail)."""
    if part is None:
        return values[0, 0]
    first, second = part.positions()
    return jnp.moveaxis(values[first, second], tuple(range(first.ndim)), tuple(range(-first.ndim, 0)))
