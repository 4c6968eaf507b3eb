"""State of a structured program: kernels over all pairs of positions, and moments of each input."""

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
    """Moments of one set of inputs: variances, means and masks, (positions, N)."""

    q: Any
    mean: Any
    mask: Any  # bool, True where there is a position; None: everywhere


class Pairs(NamedTuple):
    """E (see `kernels.angular`) and Θ over (p, p', *inputs)."""

    e: Any
    theta: Any


class State(NamedTuple):
    """A field of one or two sets of inputs: each with itself, (P, P, N), and, unless None, the first with the last,
    (P, P, N1, N2).
    """

    sides: tuple[Side, ...]
    own: tuple[Pairs, ...]
    cross: Pairs | None


class Values(NamedTuple):
    """K or Θ of each set of inputs with itself, and of the first with the last (None if that is not carried)."""

    own: tuple[Any, ...]
    cross: Any

    def map(self, change: Callable[[Any], Any]) -> Values:
        """With all its arrays changed alike."""
        return Values(tuple(map(change, self.own)), None if self.cross is None else change(self.cross))


Ends = tuple[Side, Side]  # of pairs: what is known of the first and of the second input
Rule = Callable[[list[Pairs], list[Ends], Ends], Pairs]


def left(side: Any) -> Any:
    """Moments of the first inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., :, None], side)


def right(side: Any) -> Any:
    """Moments of the second inputs, for pairs of inputs."""
    return jax.tree.map(lambda v: v[..., None, :], side)


def ends(sides: tuple[Side, ...]) -> Ends:
    """Moments of the first and of the last inputs, for pairs of inputs."""
    return left(sides[0]), right(sides[-1])


def merged(states: tuple[State, ...], sides: tuple[Side, ...], rule: Rule) -> State:
    """`rule` of the pairs of several fields, given the sides of each of them, and `sides` after."""
    own = tuple(
        rule([s.own[i] for s in states], [(s.sides[i], s.sides[i]) for s in states], (side, side))
        for i, side in enumerate(sides)
    )
    crosses = [s.cross for s in states if s.cross is not None]
    cross = rule(crosses, [ends(s.sides) for s in states], ends(sides)) if crosses else None
    return State(sides, own, cross)


def pointwise(state: State, sides: tuple[Side, ...], rule: Callable[[Pairs, Ends, Ends], Pairs]) -> State:
    """`rule` of the pairs of one field, given the sides before and after."""
    return masked(merged((state,), sides, lambda pairs, before, after: rule(pairs[0], before[0], after)))


def variances(a: Side, b: Side) -> Both:
    """The variances on both sides of every pair of positions."""
    return angular.both(a.q[:, None], b.q[None])


def covariances(state: State) -> Values:
    """K of a field."""

    def covariance(pairs: Pairs, a: Side, b: Side) -> Any:
        return angular.covariance(pairs.e, variances(a, b))

    cross = None if state.cross is None else covariance(state.cross, *ends(state.sides))
    return Values(tuple(covariance(p, s, s) for p, s in zip(state.own, state.sides, strict=True)), cross)


def thetas(state: State) -> Values:
    """Θ of a field."""
    return Values(tuple(p.theta for p in state.own), None if state.cross is None else state.cross.theta)


def of_covariances(ks: Values, thetas: Values, means: tuple[Any, ...], masks: tuple[Any, ...]) -> State:
    """The state of these kernels; variances are the diagonals of K of inputs with themselves."""
    sides = tuple(
        Side(jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), mean, mask)
        for k, mean, mask in zip(ks.own, means, masks, strict=True)
    )

    def formed(k: ArrayLike, theta: ArrayLike, a: Side, b: Side) -> Pairs:
        return Pairs(angular.of_covariance(k, variances(a, b)), theta)

    own = tuple(formed(k, theta, s, s) for k, theta, s in zip(ks.own, thetas.own, sides, strict=True))
    cross = None if ks.cross is None else formed(ks.cross, thetas.cross, *ends(sides))
    return masked(State(sides, own, cross))


def masked(state: State) -> State:
    """Zero wherever a mask leaves no position."""
    if all(side.mask is None for side in state.sides):
        return state

    def clear(pairs: list[Pairs], _: list[Ends], after: Ends) -> Pairs:
        a, b = after
        found = uncoupled(fields.State(*pairs[0]), ~(a.mask[:, None] & b.mask[None]), variances(a, b))
        return Pairs(found.e, found.theta)

    return merged((state,), tuple(map(_cleared, state.sides)), clear)


def _cleared(side: Side) -> Side:
    return Side(jnp.where(side.mask, side.q, 0), jnp.where(side.mask, side.mean, 0), side.mask)


class FieldKernels(NamedTuple):
    """Over all pairs of positions: K and Θ between two sets of inputs, (P, P', N1, N2), and K of each set's inputs with
    themselves, (P, P', N); masks (P, N) or None.
    """

    nngp: Any
    ntk: Any
    own: tuple[Any, ...]
    masks: tuple[Any, ...]


def state_of_inputs(xs: tuple[ArrayLike, ...], masks: tuple[ArrayLike | None, ...]) -> State:
    """The state of sets of inputs (P, N, C), with masks (N, P) or None."""
    sides, own = zip(*map(start, xs, masks), strict=True)
    e, _ = angular.start(xs[0][:, None, :, None], xs[-1][None, :, None, :], variances(*ends(sides)))
    return State(sides, own, Pairs(e, jnp.zeros_like(e)))


def start(x: Any, mask: Any) -> tuple[Side, Pairs]:
    """Moments of the inputs (P, N, C)."""
    side = Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
    e, _ = angular.start(x[:, None], x[None], variances(side, side))
    return side, Pairs(e, jnp.zeros_like(e))


def state_of_kernels(found: FieldKernels) -> State:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in found.own)
    thetas = Values(tuple(map(jnp.zeros_like, found.own)), found.ntk)
    return of_covariances(Values(found.own, found.nngp), thetas, means, found.masks)


def kernels_of_state(state: State) -> FieldKernels:
    """Kernels of a state; zero where a mask leaves no position."""
    own, cross = covariances(state)
    assert state.cross is not None
    ntk, masks = state.cross.theta, tuple(side.mask for side in state.sides)
    if all(mask is not None for mask in masks):
        both = masks[0][:, None, :, None] & masks[-1][None, :, None, :]
        cross, ntk = jnp.where(both, cross, 0), jnp.where(both, ntk, 0)
        own = tuple(jnp.where(m[:, None] & m[None], k, 0) for m, k in zip(masks, own, strict=True))
    return FieldKernels(cross, ntk, own, masks)
