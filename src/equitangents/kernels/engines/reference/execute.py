"""Runs operations on the squared distance D (or on the covariance) and the tangent kernel Θ of pairs of positions.

What is particular to a set of pairs (one fibre, or all pairs) is behind `Geometry`; the rules of theory are here once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.moments import Moments, deviation
from equitangents.kernels.program import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Op,
    Parallel,
    Pool,
    Standardise,
    Table,
    WindowPool,
)


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


def execute(
    ops: tuple[Op, ...], geometry: Geometry, state: State, m1: Moments, m2: Moments, carry: Carry = DISTANCE
) -> State:
    """The state after `ops`; the geometry is one of the same `carry`."""
    for i, op in enumerate(ops):
        if isinstance(op, Box):
            state = geometry.box(i, op, state, m1.q[i], m2.q[i])
        elif isinstance(op, Table):
            state = geometry.table(i, op, state)
        elif isinstance(op, Affine):
            d = carry.affine(op, state.d)
            if op.rates is None:
                gain = carry.covariance(d, geometry.first(i + 1, m1.q[i + 1]), geometry.second(i + 1, m2.q[i + 1]))
            else:
                before = carry.covariance(state.d, geometry.first(i, m1.q[i]), geometry.second(i, m2.q[i]))
                gain = op.rates[0] * before + carry.constant(op.rates[1])
            state = State(d, gain + op.W_var * state.theta)
        elif isinstance(op, Dual):
            d, slope = carry.dual(op.activation, state.d, geometry.first(i, m1.q[i]), geometry.second(i, m2.q[i]))
            state = State(d, state.theta * slope)
            carry = carry.after(op)
        elif isinstance(op, Decouple):
            state = geometry.decouple(i, state, geometry.first(i, m1.q[i]), geometry.second(i, m2.q[i]))
        elif isinstance(op, Parallel):
            state = _parallel(op, i, geometry, state, m1, m2, carry)
        elif isinstance(op, Standardise):
            q1, q2 = geometry.first(i, m1.q[i]), geometry.second(i, m2.q[i])
            f1, f2 = (t / deviation(op, t * t * m.q[i]) for t, m in zip(carry.units(), (m1, m2), strict=True))
            # What is the same at all positions has their axis, so that it can be brought to pairs.
            f1, f2 = (jnp.broadcast_to(f, m.q[i].shape) for f, m in ((f1, m1), (f2, m2)))
            f1, f2 = geometry.first(i, f1), geometry.second(i, f2)
            state = State(carry.divided(state.d, q1, q2, f1, f2), state.theta * f1 * f2)
            carry = carry.after(op)
        else:
            state = geometry.pool(i, op, state, m1, m2)
    return state


def _parallel(op: Parallel, i: int, geometry: Geometry, state: State, m1: Moments, m2: Moments, carry: Carry) -> State:
    """Branches of one field, added or put side by side.

    In sums means add a cross term: E[(f+g)(f'+g')] = K_f + K_g + m_f m_g' + m_g m_f'.
    """
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
