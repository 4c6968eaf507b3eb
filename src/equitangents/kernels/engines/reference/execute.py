"""Rules of each operation for pairs of positions, and for the moments of one input.

Each pair has E = 2(√(q1 q2) - K), see `kernels.angular`, and the tangent kernel Θ. A geometry describes the set of
pairs (at one offset, or all pairs). Each input has second moments q(p) = E[f(p)²] and means m(p) = E[f(p)], computed
once per input rather than once per pair.

Pairs of positions (p, p') with one offset (on a group: one relative element) are computed together; all pairs are if
pooling or padding mixes offsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike, DType
from equitangents.kernels import angular
from equitangents.kernels.angular import Both, both, covariance, moved, of_covariance, vanishing
from equitangents.kernels.duals import PiecewiseLinearDual
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines.reference.windows import (
    Axes,
    box_mean,
    box_mean_of_angles,
    box_variances,
    pad_grid,
    table_mean,
    table_mean_of_angles,
    window_averages,
)
from equitangents.kernels.levels import GridLevel, Level
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flattening,
    IndexTable,
    Pool,
    RatedAffine,
    Standardise,
    WindowPool,
)
from equitangents.kernels.plans import AddSaved, Fork, Restore, Step


class State(NamedTuple):
    """E and Θ over pairs of positions and inputs.

    `opposite`, unless None, is E of f and -g, which keeps the digits of the angle of opposite inputs: up to the first
    kink, through linear layers and odd functions that act on single pairs of positions, or average over them.
    """

    e: Any
    theta: Any
    opposite: Any = None

    def map(self, change: Callable[[Any], Any]) -> State:
        """The state with `change` applied to all arrays."""
        return State(*jax.tree.map(change, tuple(self)))

    def angles(self, change: Callable[[Any], Any]) -> State:
        """The state with `change` applied to E and `opposite`."""
        return State(change(self.e), self.theta, None if self.opposite is None else change(self.opposite))

    def covariance(self, at: Both) -> Any:
        """K, from the smaller angle."""
        if self.opposite is None:
            return angular.covariance(self.e, at)
        return angular.nearest_covariance(self.e, self.opposite, at)


def uncoupled(state: State, where: Any, at: Both) -> State:
    """The state with K = Θ = 0 where `where` holds."""
    independent = angular.of_covariance(jnp.zeros_like(at.root), at)
    changed = state.angles(lambda e: jnp.where(where, independent, e))
    return changed._replace(theta=jnp.where(where, 0, state.theta))


class Moments(NamedTuple):
    """`q[i]`, `mean[i]`: moments before step i (the last entry: after all steps), each (positions, *batch)."""

    q: list[Any]
    mean: list[Any]


class At(NamedTuple):
    """Context of an operation: its index, the pairs, and the moments of both inputs."""

    i: int
    geometry: Geometry
    m1: Moments
    m2: Moments
    known: dict[int, Both]  # the variances of every pair by level, if requested
    kept: dict[int, tuple[int, State]]  # by slot: the number of the fork, and the state there

    @property
    def before(self) -> Both:
        """The variances of every pair before the operation."""
        return self.variances(self.i)

    @property
    def after(self) -> Both:
        """The variances of every pair after the operation."""
        return self.variances(self.i + 1)

    def pairs(self, level: int, one: ArrayLike, other: ArrayLike) -> tuple[Any, Any]:
        """Values of both inputs by position, gathered to the pairs."""
        return self.geometry.first(level, one), self.geometry.second(level, other)

    def variances(self, level: int) -> Both:
        """Variances of every pair before step number `level`."""
        if level not in self.known:
            self.known[level] = both(*self.pairs(level, self.m1.q[level], self.m2.q[level]))
        return self.known[level]


def execute(steps: tuple[Step, ...], geometry: Geometry, state: State, m1: Moments, m2: Moments) -> State:
    """The state after `steps`."""
    known: dict[int, Both] = {}
    kept: dict[int, tuple[int, State]] = {}
    for i, step in enumerate(steps):
        state = run(step, state, At(i, geometry, m1, m2, known, kept))
    return state


def run(step: Step, state: State, at: At) -> State:
    """The state after one step."""
    after: State = _PAIRS[type(step)](step, state, at)
    return after


def _affine(op: Affine, state: State, at: At) -> State:
    before, after = at.before, at.after
    e = angular.affine(op, state.e, before, after)
    opposite = None if state.opposite is None else angular.affine(op, state.opposite, before, after, sign=-1)
    found = State(e, state.theta, opposite)
    gain = found.covariance(after) if op.rates is None else op.rates[0] * state.covariance(before) + op.rates[1]
    return found._replace(theta=gain + op.W_var * state.theta)


def _dual(op: Dual, state: State, at: At) -> State:
    rule = lambda e, *sign: angular.dual(op.activation, e, at.before, at.after, *sign)
    if state.opposite is None:
        e, slope = rule(state.e)
        return State(e, state.theta * slope)
    nearer = jax.lax.stop_gradient(state.opposite < state.e)
    sign, nearest = jnp.where(nearer, -1, 1).astype(state.e.dtype), jnp.where(nearer, state.opposite, state.e)
    if isinstance(op.activation, PiecewiseLinearDual):
        e, slope = rule(nearest, sign)
        return State(e, state.theta * slope)
    if traits_of(op.activation).even:
        e, slope = rule(nearest)
        return State(e, state.theta * sign * slope)
    e, slope = rule(state.e)
    return State(e, state.theta * slope, angular.opposite(op.activation, state.opposite, at.before, at.after))


def _fork(op: Fork, state: State, at: At) -> State:
    at.kept[op.slot] = at.i, state
    return state


def _add_saved(op: AddSaved, state: State, at: At) -> State:
    """The sum, or the concatenation, of branches of one field."""
    fork, saved = at.kept[op.slot]
    means = [at.pairs(at.i + 1, at.m1.mean[i], at.m2.mean[i]) for i in (fork, at.i)]
    e = joined_angles(op.shares, [saved.e, state.e], [at.variances(fork), at.before], means, at.after)
    return State(e, shared(op.shares, [saved.theta, state.theta]))


def shared(shares: tuple[float, ...] | None, values: list[Any]) -> Any:
    """The sum of the branches' values, or with shares their mean."""
    return sum(values) if shares is None else sum(w * v for w, v in zip(shares, values, strict=True))


def joined_angles(
    shares: tuple[float, ...] | None, angles: list[Any], ends: list[Both], means: Iterable[tuple[Any, Any]], after: Both
) -> Any:
    """E of added branches, or with shares of concatenated ones.

    Each branch has E with the variances of every pair (`ends`), and the means of both inputs at the pairs, which add a
    cross term to sums: E[(f+g)(f'+g')] = K_f + K_g + m_f m_g' + m_g m_f'. `after`: the variances of the result.
    """
    e = shared(shares, [angular.moved(own, end, after.to) for own, end in zip(angles, ends, strict=True)])
    if shares is None:
        gaps = [after.gap(*mean) for mean in means]
        e = e + sum(2 * m * n for m, n in itertools.combinations(gaps, 2))
    return angular.vanishing(e, after)


def _standardise(op: Standardise, state: State, at: At) -> State:
    # What is the same at all positions has their axis, so that it can be brought to pairs.
    f1, f2 = (jnp.broadcast_to(1 / deviation(op, m.q[at.i]), m.q[at.i].shape) for m in (at.m1, at.m2))
    f1, f2 = at.pairs(at.i, f1, f2)
    before, after = at.before, at.after
    divided = state.angles(lambda e: angular.divided(e, before, f1, f2, after))
    return divided._replace(theta=state.theta * f1 * f2)


def _pool(op: Pool | WindowPool | Flattening, state: State, at: At) -> State:
    assert isinstance(at.geometry, PairGeometry)  # pooling before a later layer mixes pair offsets
    return at.geometry.pool(at.i, op, state, at.m1, at.m2)


def _table(op: IndexTable, state: State, at: At) -> State:
    """Windowed mean along right translations, which keep the offset; over all pairs both positions move together."""
    tables, pairs = at.geometry.tables, isinstance(at.geometry, PairGeometry)
    means = state.angles(lambda e: table_mean_of_angles(e, at.before, at.after, op, tables, pairs))
    return means._replace(theta=table_mean(state.theta, op, tables, pairs))


_PAIRS: dict[type, Any] = {
    Box: lambda op, state, at: at.geometry.box(at.i, op, state, at.m1.q[at.i], at.m2.q[at.i]),
    IndexTable: _table,
    Affine: _affine,
    RatedAffine: _affine,
    Dual: _dual,
    Decouple: lambda op, state, at: at.geometry.decouple(at.i, state, at.before),
    Fork: _fork,
    Restore: lambda op, state, at: at.kept[op.slot][1],
    AddSaved: _add_saved,
    Standardise: _standardise,
    Pool: _pool,
    WindowPool: _pool,
    Flattening: _pool,
}


def field_moments(steps: tuple[Step, ...], q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> Moments:
    """Moments along `steps` without pooling."""
    found = Moments([q], [mean])
    kept: dict[int, tuple[Any, Any]] = {}
    for step in steps:
        q, mean = _moments_after(step, q, mean, tables, kept)
        found.q.append(q)
        found.mean.append(mean)
    return found


def _moments_after(
    step: Step, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any], kept: dict[int, tuple[Any, Any]]
) -> tuple[Any, Any]:
    """(second moment, mean) after one step; `kept` holds those in slots."""
    if isinstance(step, Fork):
        kept[step.slot] = q, mean
    elif isinstance(step, Restore):
        q, mean = kept[step.slot]
    elif isinstance(step, AddSaved):
        q, mean = joined(step.shares, *map(list, zip(kept[step.slot], (q, mean), strict=True)))
    else:
        q, mean = _MOMENTS[type(step)](step, q, mean, tables)
    return q, mean


def _centred(q: ArrayLike) -> tuple[Any, Any]:
    return q, jnp.zeros_like(q)


def _moments_of_box(op: Box, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> tuple[Any, Any]:
    grid = q.reshape(op.in_shape + q.shape[1:])
    axes = tuple((i,) for i in range(len(op.in_shape)))
    return _centred(box_mean(pad_grid(grid, op, axes), op, axes).reshape((-1, *q.shape[1:])))


def _moments_of_affine(op: Affine, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> tuple[Any, Any]:
    return _centred(op.W_var * q + op.b_var)


_MOMENTS: dict[type, Any] = {
    Box: _moments_of_box,
    IndexTable: lambda op, q, mean, tables: _centred(table_mean(q, op, tables)),
    Affine: _moments_of_affine,
    RatedAffine: _moments_of_affine,
    Dual: lambda op, q, mean, tables: op.activation.moments(q),
    Standardise: lambda op, q, mean, tables: _centred(q / deviation(op, q) ** 2),
    Decouple: lambda op, q, mean, tables: (q, mean),
}


def deviation(op: Standardise, q: ArrayLike) -> ArrayLike:
    """The standard deviation σ, (1, *batch), from the variances at all positions."""
    return jnp.sqrt(jnp.mean(q, axis=0, keepdims=True) + op.eps)


def joined(shares: tuple[float, ...] | None, qs: list[Any], means: list[Any]) -> tuple[Any, Any]:
    """Second moment and mean of added or concatenated branches."""
    q, mean = shared(shares, qs), shared(shares, means)
    if shares is None:
        q = q + sum(2 * m * n for m, n in itertools.combinations(means, 2))
    return q, mean


AnyPool = Pool | WindowPool | Flattening


def _box_means(op: Box, padded: State, at: Both, axes: Axes) -> State:
    """Means over a box of the padded grid, whose pairs have the variances `at`."""
    variances = box_variances(at, op, axes)
    means = padded.angles(lambda e: box_mean_of_angles(e, variances, op, axes))
    return means._replace(theta=box_mean(padded.theta, op, axes))


def grid_partners(level: GridLevel, label: Any, low: tuple[int, ...], high: tuple[int, ...]) -> tuple[Any, Any]:
    """(flat index of p + step·q, whether it lies on the grid), for p in the grid enlarged by `low` and `high`.

    On a torus the index wraps, but positions outside are still reported as outside.
    """
    d = len(level.shape)
    xp: Any = np if isinstance(label, np.ndarray) else jnp  # what is known is no part of the compiled program
    index = xp.zeros((1,) * d, np.int32)
    valid = xp.ones((1,) * d, bool)
    for i, n in enumerate(level.shape):
        p = xp.arange(-low[i], n + high[i], dtype=np.int32) + label[i] * level.step[i]
        wide = (1,) * i + (-1,) + (1,) * (d - i - 1)
        inside = (p >= 0) & (p < n)
        index = index * n + (p % n).reshape(wide)
        valid = valid & inside.reshape(wide)
    return index, valid


@dataclass
class OffsetGeometry:
    """The pairs at the offset `label` of a program with these levels; batch axes are already aligned."""

    levels: tuple[Level, ...]
    label: Any
    tables: dict[str, Any]
    _partners: dict[Level, tuple[Any, Any]] = field(default_factory=dict)

    def partners(self, level: Level) -> tuple[Any, Any]:
        """(index of the second position, whether it exists) for every first position."""
        if level not in self._partners:
            self._partners[level] = self._find_partners(level)
        return self._partners[level]

    def _find_partners(self, level: Level) -> tuple[Any, Any]:
        if level.on_grid:
            zero = (0,) * len(level.shape)
            index, valid = grid_partners(level, self.label, zero, zero)
            if level.wrap:
                valid = jnp.ones_like(valid)
            shape = level.shape
            return jnp.broadcast_to(index, shape).reshape(-1), jnp.broadcast_to(valid, shape).reshape(-1)
        row = self.tables[level.table.key][self.label]
        return row, jnp.ones(row.shape, bool)

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the first position p: unchanged."""
        return values

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at p'; out-of-range entries are arbitrary and masked later."""
        level = self.levels[i]
        if level.on_grid and isinstance(self.label, np.ndarray) and not self.label.any():
            return values
        return values[self.partners(level)[0]]

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Windowed mean; if exactly one of the two reads falls outside, K = Θ = 0."""
        axes = tuple((j,) for j in range(len(op.in_shape)))
        grid = lambda x: x.reshape(op.in_shape + x.shape[1:])
        padded = state.map(lambda x: pad_grid(grid(x), op, axes))
        first, second = pad_grid(grid(q1), op, axes), pad_grid(grid(self.second(i, q2)), op, axes)
        if not op.wrap and (any(op.low) or any(op.high)):
            second, beyond = self._outside(i, op, q2)
            padded = uncoupled(padded, beyond, both(first, second))
        means = _box_means(op, padded, both(first, second), axes)
        means = means.map(lambda x: x.reshape((-1, *x.shape[len(axes) :])))
        if op.wrap:
            return means
        # Pairs without a second position are kept at zero, so that nothing overflows before they are left out.
        valid = self.partners(self.levels[i + 1])[1].reshape((-1,) + (1,) * (means.theta.ndim - 1))
        return means.map(lambda x: jnp.where(valid, x, 0))

    def _outside(self, i: int, op: Box, q2: ArrayLike) -> tuple[Any, Any]:
        """(variances of the second reads of the enlarged grid, 0 outside; mask of reads outside)."""
        level = self.levels[i].grid
        index, valid2 = grid_partners(level, self.label, op.low, op.high)
        valid1 = np.pad(np.ones(op.in_shape, bool), list(zip(op.low, op.high, strict=True)))
        shape = valid1.shape
        wide = shape + (1,) * (q2.ndim - 1)
        valid2 = jnp.broadcast_to(valid2, shape).reshape(wide)
        second = jnp.where(valid2, q2[jnp.broadcast_to(index, shape)], 0)
        return second, ~(valid1.reshape(wide) & valid2)

    def decouple(self, i: int, state: State, at: Both) -> State:
        """The state with K = Θ = 0 unless the offset is zero."""
        return uncoupled(state, ~jnp.all(self.label == 0), at)


@dataclass
class PairGeometry:
    """Fields over all pairs (p, p', *batch); batch axes are already aligned."""

    tables: dict[str, Any]

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the first position p of every pair."""
        return values[:, None]

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the second position p' of every pair."""
        return values[None]

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Windowed mean over both positions together; if one read falls outside, K = Θ = 0."""
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
        means = _box_means(op, padded, at, axes)
        return means.map(lambda x: x.reshape((out, out, *x.shape[2 * n :])))

    def pool(self, i: int, op: AnyPool, state: State, m1: Moments, m2: Moments) -> State:
        """Pool covariances and form E from them; for flattened fields, means of distances."""
        before, after = (both(m1.q[level][:, None], m2.q[level][None]) for level in (i, i + 1))
        theta = pool_pairs(op, state.theta, self.tables)
        if op.is_diagonal:
            return State(vanishing(pool_pairs(op, moved(state.e, before, after.to), self.tables), after), theta)
        return State(of_covariance(pool_pairs(op, covariance(state.e, before), self.tables), after), theta)

    def decouple(self, i: int, state: State, at: Both) -> State:
        """The state with K = Θ = 0 off the diagonal."""
        n = state.e.shape[0]
        same = jnp.eye(n, dtype=bool).reshape((n, n) + (1,) * (state.e.ndim - 2))
        return uncoupled(state, ~same, at)


Geometry = OffsetGeometry | PairGeometry


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


def self_moments(
    steps: tuple[Step, ...], e: ArrayLike, q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]
) -> Moments:
    """Moments of one input along `steps` with pooling, which needs its own covariances at all pairs of positions.

    `e` is (positions, positions, N), `q` and `mean` are (positions, N).
    """
    geometry, found = PairGeometry(tables), Moments([q], [mean])
    kept: dict[int, tuple[Any, Any]] = {}
    known: dict[int, Both] = {}
    states: dict[int, tuple[int, State]] = {}
    last = max((i for i, step in enumerate(steps) if step.is_pool), default=-1)  # up to where E is read
    for i, step in enumerate(steps):
        if isinstance(step, AnyPool):
            k = pool_pairs(step, covariance(e, both(q[:, None], q[None])), tables)
            q, mean = jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), pool_mean(step, mean, tables)
            e = of_covariance(k, both(q[:, None], q[None]))
        else:
            q, mean = _moments_after(step, q, mean, tables, kept)
        found.q.append(q)
        found.mean.append(mean)
        if i < last and not step.is_pool:
            e = run(step, State(e, jnp.zeros_like(e)), At(i, geometry, found, found, known, states)).e
    return found


def pool_mean(op: AnyPool, mean: ArrayLike, tables: dict[str, Any]) -> ArrayLike:
    """Means E[f(p)] after pooling: over each block, or over all positions for a flattening."""
    if op.is_diagonal:
        return jnp.mean(mean, axis=0, keepdims=True)
    matrix = averaging(op, mean.shape[0], mean.dtype, tables)
    return jnp.tensordot(matrix, mean, axes=1, precision=lax.Precision.HIGHEST)
