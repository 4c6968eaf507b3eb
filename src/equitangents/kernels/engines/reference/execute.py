"""What each operation does to pairs of positions, and to what is known of one input alone: the rules of theory, once.

Carried by pair are the squared distance D (or the covariance) and the tangent kernel Θ. What is particular to a set of
pairs (one fibre, or all pairs) is behind `Geometry`. Of one input alone there are second moments q(p) = E[f(p)²] and
means m(p) = E[f(p)], computed once per input rather than once per pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.windows import box_mean, pad_grid, table_mean
from equitangents.kernels.program import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Op,
    Parallel,
    Pool,
    RatedAffine,
    Standardise,
    Table,
    WindowPool,
)
from equitangents.kernels.units import leaves_units


class State(NamedTuple):
    """What is carried (D = q1 + q2 - 2K unless said otherwise) and Θ over pairs of positions and inputs.

    What is carried is an array, or a tuple of them.
    """

    d: Any
    theta: Any

    def map(self, change: Callable[[Any], Any]) -> State:
        """With all its arrays changed alike."""
        return State(*jax.tree.map(change, tuple(self)))

    @classmethod
    def begin(cls, d: Any) -> State:
        """With what is carried, and without Θ."""
        return cls(d, jnp.zeros_like(jax.tree.leaves(d)[0]))


class Moments(NamedTuple):
    """`q[i]`, `mean[i]`: before operation i (the last entry: after all), each (positions, *batch).

    `branches[i]` are those inside operation i; of a `Parallel` these hold `branches` alone, one for each of its own.
    """

    q: list[Any]
    mean: list[Any]
    branches: list[Any]


class Geometry(Protocol):
    """Which pairs of positions are carried, and how windows and pooling act on them."""

    def inner(self, i: int, branch: int) -> Geometry:
        """The geometry inside one of the branches at operation i."""

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """`values` of the first input at level i, (positions, *batch), brought to the pairs."""

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """`values` of the second input at level i, brought to the pairs."""

    def box(self, i: int, op: Box, state: State, q1: Any, q2: Any) -> State:
        """Mean over a box; q1, q2 are the variances at level i by position, for reads outside the grid."""

    def table(self, i: int, op: Table, state: State) -> State:
        """Mean over a window table."""

    def pool(self, i: int, op: Pool | WindowPool | Flatten, state: State, m1: Moments, m2: Moments) -> State:
        """Mean over blocks of positions."""

    def decouple(self, i: int, state: State, q1: ArrayLike, q2: ArrayLike) -> State:
        """Set K = Θ = 0 at pairs of different positions; q1, q2 are the variances at the pairs."""


class At(NamedTuple):
    """Where an operation stands: its number, the pairs, what is known of both sides alone, and what is carried."""

    i: int
    geometry: Geometry
    m1: Moments
    m2: Moments
    carry: Carry

    def variances(self, level: int) -> tuple[Any, Any]:
        """Those of both positions of every pair at a level."""
        return self.both(level, self.m1.q[level], self.m2.q[level])

    def both(self, level: int, one: ArrayLike, other: ArrayLike) -> tuple[Any, Any]:
        """Values of the two sides by position, brought to the pairs."""
        return self.geometry.first(level, one), self.geometry.second(level, other)


def execute(
    ops: tuple[Op, ...], geometry: Geometry, state: State, m1: Moments, m2: Moments, carry: Carry = DISTANCE
) -> State:
    """The state after `ops`; the geometry is one of the same `carry`."""
    for i, op in enumerate(ops):
        state = _PAIRS[type(op)](op, state, At(i, geometry, m1, m2, carry))
        if isinstance(op, Dual | Standardise):
            carry = carry.after(op)
    return state


def _affine(op: Affine, state: State, at: At) -> State:
    d = at.carry.affine(op, state.d)
    if op.rates is None:
        gain = at.carry.covariance(d, *at.variances(at.i + 1))
    else:
        gain = op.rates[0] * at.carry.covariance(state.d, *at.variances(at.i)) + at.carry.constant(op.rates[1])
    return State(d, gain + op.W_var * state.theta)


def _dual(op: Dual, state: State, at: At) -> State:
    d, slope = at.carry.dual(op.activation, state.d, *at.variances(at.i))
    return State(d, state.theta * slope)


def _parallel(op: Parallel, state: State, at: At) -> State:
    """Branches of one field, added or put side by side.

    In sums means add a cross term: E[(f+g)(f'+g')] = K_f + K_g + m_f m_g' + m_g m_f'.
    """
    i, geometry, m1, m2, carry = at
    one, other = m1.branches[i].branches, m2.branches[i].branches
    each = [
        execute(branch, geometry.inner(i, b), state, one[b], other[b], carry) for b, branch in enumerate(op.branches)
    ]
    shares = op.shares or (1.0,) * len(each)
    d = sum(w * found.d for w, found in zip(shares, each, strict=True))
    if op.shares is None:
        for a, b in itertools.combinations(range(len(each)), 2):
            d = d + carry.cross(
                geometry.first(i + 1, one[a].mean[-1]), geometry.first(i + 1, one[b].mean[-1]),
                geometry.second(i + 1, other[a].mean[-1]), geometry.second(i + 1, other[b].mean[-1]),
            )  # fmt: skip
    return State(d, sum(w * found.theta for w, found in zip(shares, each, strict=True)))


def _standardise(op: Standardise, state: State, at: At) -> State:
    q1, q2 = at.variances(at.i)
    f1, f2 = (t / deviation(op, t * t * m.q[at.i]) for t, m in zip(at.carry.units(), (at.m1, at.m2), strict=True))
    # What is the same at all positions has their axis, so that it can be brought to pairs.
    f1, f2 = (jnp.broadcast_to(f, m.q[at.i].shape) for f, m in ((f1, at.m1), (f2, at.m2)))
    f1, f2 = at.both(at.i, f1, f2)
    return State(at.carry.divided(state.d, q1, q2, f1, f2), state.theta * f1 * f2)


def _pool(op: Pool | WindowPool | Flatten, state: State, at: At) -> State:
    return at.geometry.pool(at.i, op, state, at.m1, at.m2)


_PAIRS: dict[type, Any] = {
    Box: lambda op, state, at: at.geometry.box(at.i, op, state, at.m1.q[at.i], at.m2.q[at.i]),
    Table: lambda op, state, at: at.geometry.table(at.i, op, state),
    Affine: _affine,
    RatedAffine: _affine,
    Dual: _dual,
    Decouple: lambda op, state, at: at.geometry.decouple(at.i, state, *at.variances(at.i)),
    Parallel: _parallel,
    Standardise: _standardise,
    Pool: _pool,
    WindowPool: _pool,
    Flatten: _pool,
}


def field_moments(
    ops: tuple[Op, ...], q: ArrayLike, mean: ArrayLike, tables: dict[str, Any], unit: Any = None
) -> Moments:
    """Moments along `ops`, none of which pools, of fields in units (*batch,) up to where these are left."""
    found = Moments([q], [mean], [])
    for op in ops:
        inner = None
        if unit is not None and leaves_units(op):
            q, unit = q * unit**2, None
        if op.held:
            inner = Moments([], [], [field_moments(branch, q, mean, tables) for branch in op.held])
            q, mean = joined(op, [own.q[-1] for own in inner.branches], [own.mean[-1] for own in inner.branches])
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


def joined(op: Any, qs: list[Any], means: list[Any]) -> tuple[Any, Any]:
    """Second moment and mean of branches that are added, or put side by side."""
    if op.shares is not None:
        q, mean = (sum(w * v for w, v in zip(op.shares, values, strict=True)) for values in (qs, means))
        return q, mean
    pairs = itertools.combinations(means, 2)
    return sum(qs) + sum(2 * m * n for m, n in pairs), sum(means)
