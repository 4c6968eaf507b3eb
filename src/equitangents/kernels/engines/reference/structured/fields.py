"""What a structured program carries: kernels over all pairs of positions, and what is known of each input alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry


class Side(NamedTuple):
    """What is known of one set of inputs: variances, means and masks, (positions, N)."""

    q: Any
    mean: Any
    mask: Any  # bool, True where there is a position; None: everywhere


class Pairs(NamedTuple):
    """D (or K, by what is carried) and Θ over (p, p', *inputs)."""

    d: Any
    theta: Any


class State(NamedTuple):
    """A field of both sets of inputs: each with itself, (P, P, N), and, unless None, the two, (P, P, N1, N2)."""

    one: Side
    other: Side
    own1: Pairs
    own2: Pairs
    cross: Pairs | None


Rule = Callable[[Pairs, Side, Side, Side, Side, Carry], Pairs]
Linear = Callable[[Any], Any]


def left(side: Any) -> Any:
    """What is known of the first inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., :, None], side)


def right(side: Any) -> Any:
    """What is known of the second inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., None, :], side)


def pointwise(state: State, one: Side, other: Side, rule: Rule, carry: Carry) -> State:
    """`rule` of all three fields, given the sides before and after."""
    own1 = rule(state.own1, state.one, state.one, one, one, DISTANCE)
    own2 = rule(state.own2, state.other, state.other, other, other, DISTANCE)
    cross = None
    if state.cross is not None:
        cross = rule(state.cross, left(state.one), right(state.other), left(one), right(other), carry)
    return masked(State(one, other, own1, own2, cross), carry)


def covariance(pairs: Pairs, a: Side, b: Side, carry: Carry) -> Any:
    """K over pairs of positions."""
    return carry.covariance(pairs.d, a.q[:, None], b.q[None])


def covariances(state: State, carry: Carry) -> tuple[Any, Any, Any]:
    """K of the first inputs with themselves, of the second, and between them (None if that is not carried)."""
    cross = None
    if state.cross is not None:
        cross = covariance(state.cross, left(state.one), right(state.other), carry)
    return (
        covariance(state.own1, state.one, state.one, DISTANCE),
        covariance(state.own2, state.other, state.other, DISTANCE),
        cross,
    )


def of_covariances(
    ks: tuple[Any, Any, Any], thetas: tuple[Any, Any, Any], means: tuple[Any, Any], masks: tuple[Any, Any], carry: Carry
) -> State:
    """The state of these kernels; variances are the diagonals of K of inputs with themselves."""
    one, other = (
        Side(jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), mean, mask)
        for k, mean, mask in zip(ks[:2], means, masks, strict=True)
    )

    def formed(k: ArrayLike, theta: ArrayLike, a: Side, b: Side, how: Carry) -> Pairs:
        return Pairs(how.of_covariance(k, a.q[:, None], b.q[None]), theta)

    own1, own2 = formed(ks[0], thetas[0], one, one, DISTANCE), formed(ks[1], thetas[1], other, other, DISTANCE)
    cross = None if ks[2] is None else formed(ks[2], thetas[2], left(one), right(other), carry)
    return masked(State(one, other, own1, own2, cross), carry)


def thetas(state: State) -> tuple[Any, Any, Any]:
    """Θ of the first inputs with themselves, of the second, and between them."""
    return state.own1.theta, state.own2.theta, None if state.cross is None else state.cross.theta


def masked(state: State, carry: Carry) -> State:
    """Zero wherever a mask leaves no position."""
    if state.one.mask is None and state.other.mask is None:
        return state
    one, other = _cleared(state.one), _cleared(state.other)

    def clear(pairs: Pairs, a: Side, b: Side, how: Carry) -> Pairs:
        both = a.mask[:, None] & b.mask[None]
        d = jnp.where(both, pairs.d, how.unrelated(a.q[:, None], b.q[None]))
        return Pairs(d, jnp.where(both, pairs.theta, 0))

    own1, own2 = clear(state.own1, one, one, DISTANCE), clear(state.own2, other, other, DISTANCE)
    cross = None if state.cross is None else clear(state.cross, left(one), right(other), carry)
    return State(one, other, own1, own2, cross)


def _cleared(side: Side) -> Side:
    return Side(jnp.where(side.mask, side.q, 0), jnp.where(side.mask, side.mean, 0), side.mask)
