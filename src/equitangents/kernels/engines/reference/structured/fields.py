"""What a structured program carries: kernels over all pairs of positions, and what is known of each input alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels import angular
from equitangents.kernels.angular import Both
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference.execute import uncoupled


class Side(NamedTuple):
    """What is known of one set of inputs: variances, means and masks, (positions, N)."""

    q: Any
    mean: Any
    mask: Any  # bool, True where there is a position; None: everywhere


class Pairs(NamedTuple):
    """E (see `kernels.angular`) and Θ over (p, p', *inputs)."""

    e: Any
    theta: Any


class State(NamedTuple):
    """A field of both sets of inputs: each with itself, (P, P, N), and, unless None, the two, (P, P, N1, N2)."""

    one: Side
    other: Side
    own1: Pairs
    own2: Pairs
    cross: Pairs | None


Rule = Callable[[Pairs, Side, Side, Side, Side], Pairs]
Linear = Callable[[Any], Any]


def left(side: Any) -> Any:
    """What is known of the first inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., :, None], side)


def right(side: Any) -> Any:
    """What is known of the second inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., None, :], side)


def pointwise(state: State, one: Side, other: Side, rule: Rule) -> State:
    """`rule` of all three fields, given the sides before and after."""
    own1 = rule(state.own1, state.one, state.one, one, one)
    own2 = rule(state.own2, state.other, state.other, other, other)
    cross = None
    if state.cross is not None:
        cross = rule(state.cross, left(state.one), right(state.other), left(one), right(other))
    return masked(State(one, other, own1, own2, cross))


def variances(a: Side, b: Side) -> Both:
    """Those of pairs of positions."""
    return angular.both(a.q[:, None], b.q[None])


def covariance(pairs: Pairs, a: Side, b: Side) -> Any:
    """K over pairs of positions."""
    return angular.covariance(pairs.e, variances(a, b))


def covariances(state: State) -> tuple[Any, Any, Any]:
    """K of the first inputs with themselves, of the second, and between them (None if that is not carried)."""
    cross = None
    if state.cross is not None:
        cross = covariance(state.cross, left(state.one), right(state.other))
    return (
        covariance(state.own1, state.one, state.one),
        covariance(state.own2, state.other, state.other),
        cross,
    )


def of_covariances(
    ks: tuple[Any, Any, Any], thetas: tuple[Any, Any, Any], means: tuple[Any, Any], masks: tuple[Any, Any]
) -> State:
    """The state of these kernels; variances are the diagonals of K of inputs with themselves."""
    one, other = (
        Side(jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), mean, mask)
        for k, mean, mask in zip(ks[:2], means, masks, strict=True)
    )

    def formed(k: ArrayLike, theta: ArrayLike, a: Side, b: Side) -> Pairs:
        return Pairs(angular.of_covariance(k, variances(a, b)), theta)

    own1, own2 = formed(ks[0], thetas[0], one, one), formed(ks[1], thetas[1], other, other)
    cross = None if ks[2] is None else formed(ks[2], thetas[2], left(one), right(other))
    return masked(State(one, other, own1, own2, cross))


def thetas(state: State) -> tuple[Any, Any, Any]:
    """Θ of the first inputs with themselves, of the second, and between them."""
    return state.own1.theta, state.own2.theta, None if state.cross is None else state.cross.theta


def masked(state: State) -> State:
    """Zero wherever a mask leaves no position."""
    if state.one.mask is None and state.other.mask is None:
        return state
    one, other = _cleared(state.one), _cleared(state.other)

    def clear(pairs: Pairs, a: Side, b: Side) -> Pairs:
        found = uncoupled(fields.State(*pairs), ~(a.mask[:, None] & b.mask[None]), variances(a, b))
        return Pairs(found.e, found.theta)

    own1, own2 = clear(state.own1, one, one), clear(state.own2, other, other)
    cross = None if state.cross is None else clear(state.cross, left(one), right(other))
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


def state_of_inputs(x1: ArrayLike, x2: ArrayLike, mask1: ArrayLike | None, mask2: ArrayLike | None) -> State:
    """The state of inputs (P, N, C), with masks (N, P) or None."""
    side1, own1 = start(x1, mask1)
    side2, own2 = start(x2, mask2)
    e, _ = angular.start(x1[:, None, :, None], x2[None, :, None, :], variances(left(side1), right(side2)))
    return State(side1, side2, own1, own2, Pairs(e, jnp.zeros_like(e)))


def start(x: Any, mask: Any) -> tuple[Side, Pairs]:
    """What is known of the inputs (P, N, C) alone."""
    side = Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
    e, _ = angular.start(x[:, None], x[None], variances(side, side))
    return side, Pairs(e, jnp.zeros_like(e))


def state_of_kernels(found: FieldKernels) -> State:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in (found.own1, found.own2))
    thetas = jnp.zeros_like(found.own1), jnp.zeros_like(found.own2), found.ntk
    ks = found.own1, found.own2, found.nngp
    return of_covariances(ks, thetas, means, (found.mask1, found.mask2))  # type: ignore[arg-type]


def kernels_of_state(state: State) -> FieldKernels:
    """What a state holds, as kernels; zero where a mask leaves no position."""
    own1, own2, cross = covariances(state)
    assert state.cross is not None
    ntk, masks = state.cross.theta, (state.one.mask, state.other.mask)
    if masks[0] is not None and masks[1] is not None:
        both = masks[0][:, None, :, None] & masks[1][None, :, None, :]
        cross, ntk = jnp.where(both, cross, 0), jnp.where(both, ntk, 0)
        own1, own2 = (jnp.where(m[:, None] & m[None], k, 0) for m, k in ((masks[0], own1), (masks[1], own2)))
    return FieldKernels(cross, ntk, own1, own2, *masks)
