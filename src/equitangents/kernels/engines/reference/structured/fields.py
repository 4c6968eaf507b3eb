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


class FieldKernels(NamedTuple):
    """Over all pairs of positions: K and Θ between two sets of inputs, (P, P', N1, N2), and K of each set's inputs with
    themselves, (P, P', N); masks (P, N) or None.
    """

    nngp: Any
    ntk: Any
    own1: Any
    own2: Any
    mask1: Any = None
    mask2: Any = None


def state_of_inputs(
    x1: ArrayLike, x2: ArrayLike, mask1: ArrayLike | None, mask2: ArrayLike | None, carry: Carry = DISTANCE
) -> State:
    """The state of inputs (P, N, C), with masks (N, P) or None."""
    side1, own1 = start(x1, mask1)
    side2, own2 = start(x2, mask2)
    d = carry.start(x1[:, None, :, None], x2[None, :, None, :])
    return State(side1, side2, own1, own2, Pairs(d, jnp.zeros_like(d)))


def start(x: Any, mask: Any) -> tuple[Side, Pairs]:
    """What is known of the inputs (P, N, C) alone."""
    d = jnp.mean((x[:, None] - x[None]) ** 2, axis=-1)
    side = Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
    return side, Pairs(d, jnp.zeros_like(d))


def state_of_kernels(found: FieldKernels) -> State:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in (found.own1, found.own2))
    thetas = jnp.zeros_like(found.own1), jnp.zeros_like(found.own2), found.ntk
    ks = found.own1, found.own2, found.nngp
    return of_covariances(ks, thetas, means, (found.mask1, found.mask2), DISTANCE)  # type: ignore[arg-type]


def kernels_of_state(state: State) -> FieldKernels:
    """What a state holds, as kernels; zero where a mask leaves no position."""
    own1, own2, cross = covariances(state, DISTANCE)
    assert state.cross is not None
    ntk, masks = state.cross.theta, (state.one.mask, state.other.mask)
    if masks[0] is not None and masks[1] is not None:
        both = masks[0][:, None, :, None] & masks[1][None, :, None, :]
        cross, ntk = jnp.where(both, cross, 0), jnp.where(both, ntk, 0)
        own1, own2 = (jnp.where(m[:, None] & m[None], k, 0) for m, k in ((masks[0], own1), (masks[1], own2)))
    return FieldKernels(cross, ntk, own1, own2, *masks)
