"""Rules of each operation for pairs of positions, and for the moments of one input.

Carried by pair are E = 2(√(q1 q2) - K), see `kernels.angular`, and the tangent kernel Θ. What is particular to a set of
pairs (one fibre, or all pairs) is behind `Geometry`. Of one input alone there are second moments q(p) = E[f(p)²] and
means m(p) = E[f(p)], computed once per input rather than once per pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels import angular
from equitangents.kernels.angular import Both, both
from equitangents.kernels.duals import PiecewiseLinear
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines.reference.windows import (
    box_mean,
    pad_grid,
    table_mean,
)
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Pool,
    RatedAffine,
    Standardise,
    Table,
    WindowPool,
)
from equitangents.kernels.program import Op, Parallel


class State(NamedTuple):
    """E and Θ over pairs of positions and inputs.

    `opposite`, unless None, is E of f and -g, which has the digits of the angle of opposite inputs: up to the first
    kink, through linear layers and odd functions that act on pairs of positions alone, or take means of them.
    """

    e: Any
    theta: Any
    opposite: Any = None

    def map(self, change: Callable[[Any], Any]) -> State:
        """With all its arrays changed alike."""
        return State(*jax.tree.map(change, tuple(self)))

    def angles(self, change: Callable[[Any], Any]) -> State:
        """With E, and that of the opposite, changed alike."""
        return State(change(self.e), self.theta, None if self.opposite is None else change(self.opposite))

    def covariance(self, at: Both) -> Any:
        """K, from the smaller angle."""
        if self.opposite is None:
            return angular.covariance(self.e, at)
        return angular.nearest_covariance(self.e, self.opposite, at)


def uncoupled(state: State, where: Any, at: Both) -> State:
    """With K = Θ = 0 at some pairs."""
    alone = angular.of_covariance(jnp.zeros_like(at.root), at)
    changed = state.angles(lambda e: jnp.where(where, alone, e))
    return changed._replace(theta=jnp.where(where, 0, state.theta))


class Moments(NamedTuple):
    """`q[i]`, `mean[i]`: before operation i (the last entry: after all), each (positions, *batch).

    `branches[i]` are those of each branch inside operation i.
    """

    q: list[Any]
    mean: list[Any]
    branches: list[list[Moments]]


class Geometry(Protocol):
    """Which pairs of positions are carried, and how windows and pooling act on them."""

    def inner(self, i: int, branch: int) -> Geometry:
        """The geometry inside one of the branches at operation i."""

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """`values` of the first input at level i, (positions, *batch), brought to the pairs."""

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """`values` of the second input at level i, brought to the pairs."""

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Mean over a box; q1, q2 are the variances at level i by position."""

    def table(self, op: Table, state: State, before: Both, after: Both) -> State:
        """Mean over a window table; `before` and `after` are the variances at the pairs."""

    def pool(self, i: int, op: Pool | WindowPool | Flatten, state: State, m1: Moments, m2: Moments) -> State:
        """Mean over blocks of positions."""

    def decouple(self, i: int, state: State, at: Both) -> State:
        """Set K = Θ = 0 at pairs of different positions; `at` are the variances at the pairs."""


class At(NamedTuple):
    """Context of an operation: its number, the pairs, and the moments of both sides."""

    i: int
    geometry: Geometry
    m1: Moments
    m2: Moments
    known: dict[int, Both]  # the variances of every pair by level, where they were asked for

    @property
    def before(self) -> Both:
        """The variances of every pair before the operation."""
        return self._variances(self.i)

    @property
    def after(self) -> Both:
        """Variances of both inputs behind the operation."""
        return self._variances(self.i + 1)

    def pairs(self, level: int, one: ArrayLike, other: ArrayLike) -> tuple[Any, Any]:
        """Values of the two sides by position, brought to the pairs."""
        return self.geometry.first(level, one), self.geometry.second(level, other)

    def _variances(self, level: int) -> Both:
        if level not in self.known:
            self.known[level] = both(*self.pairs(level, self.m1.q[level], self.m2.q[level]))
        return self.known[level]


def execute(ops: tuple[Op, ...], geometry: Geometry, state: State, m1: Moments, m2: Moments) -> State:
    """The state after `ops`."""
    known: dict[int, Both] = {}
    for i, op in enumerate(ops):
        state = run(op, state, At(i, geometry, m1, m2, known))
    return state


def run(op: Op, state: State, at: At) -> State:
    """The state after one operation."""
    after: State = _PAIRS[type(op)](op, state, at)
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
    if isinstance(op.activation, PiecewiseLinear):
        e, slope = rule(nearest, sign)
        return State(e, state.theta * slope)
    if traits_of(op.activation).even:
        e, slope = rule(nearest)
        return State(e, state.theta * sign * slope)
    e, slope = rule(state.e)
    return State(e, state.theta * slope, angular.opposite(op.activation, state.opposite, at.before, at.after))


def _parallel(op: Parallel, state: State, at: At) -> State:
    """Branches of one field, added or put side by side."""
    i, geometry, m1, m2, _ = at
    one, other = m1.branches[i], m2.branches[i]
    each = [execute(branch, geometry.inner(i, b), state, one[b], other[b]) for b, branch in enumerate(op.branches)]
    ends = [both(*at.pairs(i + 1, m.q[-1], n.q[-1])) for m, n in zip(one, other, strict=True)]
    means = (at.pairs(i + 1, m.mean[-1], n.mean[-1]) for m, n in zip(one, other, strict=True))
    e = joined_angles(op.shares, [found.e for found in each], ends, means, at.after)
    return State(e, shared(op.shares, [found.theta for found in each]))


def shared(shares: tuple[float, ...] | None, values: list[Any]) -> Any:
    """The sum of the branches' values, or with shares their mean."""
    return sum(values) if shares is None else sum(w * v for w, v in zip(shares, values, strict=True))


def joined_angles(
    shares: tuple[float, ...] | None, angles: list[Any], ends: list[Both], means: Iterable[tuple[Any, Any]], after: Both
) -> Any:
    """E of branches that are added, or with shares put side by side.

    Of each there are E with the variances of every pair (`ends`), and the means of both inputs at the pairs. In sums
    these add a cross term: E[(f+g)(f'+g')] = K_f + K_g + m_f m_g' + m_g m_f'. `after` are the variances of the result.
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


def _pool(op: Pool | WindowPool | Flatten, state: State, at: At) -> State:
    return at.geometry.pool(at.i, op, state, at.m1, at.m2)


_PAIRS: dict[type, Any] = {
    Box: lambda op, state, at: at.geometry.box(at.i, op, state, at.m1.q[at.i], at.m2.q[at.i]),
    Table: lambda op, state, at: at.geometry.table(op, state, at.before, at.after),
    Affine: _affine,
    RatedAffine: _affine,
    Dual: _dual,
    Decouple: lambda op, state, at: at.geometry.decouple(at.i, state, at.before),
    Parallel: _parallel,
    Standardise: _standardise,
    Pool: _pool,
    WindowPool: _pool,
    Flatten: _pool,
}


def field_moments(ops: tuple[Op, ...], q: ArrayLike, mean: ArrayLike, tables: dict[str, Any]) -> Moments:
    """Moments along `ops`, none of which pools."""
    found = Moments([q], [mean], [])
    for op in ops:
        inner = [field_moments(branch, q, mean, tables) for branch in op.held]
        if inner:
            q, mean = joined(op.shares, [own.q[-1] for own in inner], [own.mean[-1] for own in inner])
        else:
            q, mean = _MOMENTS[type(op)](op, q, mean, tables)
        found.q.append(q)
        found.mean.append(mean)
        found.branches.append(inner)
    return found


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
    Table: lambda op, q, mean, tables: _centred(table_mean(q, op, tables)),
    Affine: _moments_of_affine,
    RatedAffine: _moments_of_affine,
    Dual: lambda op, q, mean, tables: op.activation.moments(q),
    Standardise: lambda op, q, mean, tables: _centred(q / deviation(op, q) ** 2),
    Decouple: lambda op, q, mean, tables: (q, mean),
}


def deviation(op: Standardise, q: ArrayLike) -> ArrayLike:
    """σ, (1, *batch), from the variances at all positions."""
    return jnp.sqrt(jnp.mean(q, axis=0, keepdims=True) + op.eps)


def joined(shares: tuple[float, ...] | None, qs: list[Any], means: list[Any]) -> tuple[Any, Any]:
    """Second moment and mean of branches that are added, or put side by side."""
    q, mean = shared(shares, qs), shared(shares, means)
    if shares is None:
        q = q + sum(2 * m * n for m, n in itertools.combinations(means, 2))
    return q, mean
