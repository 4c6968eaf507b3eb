"""Fields of structured programs over all pairs of positions, and what mixes these.

Attention, aggregation over graphs and pools under masks are sums over positions with each input's weights:
K' = A K A'ᵀ and Θ' = A Θ A'ᵀ, with A (positions_out, positions, N) of the first inputs and A' of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels import angular
from equitangents.kernels.angular import Both
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference.execute import uncoupled
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.operations import Pool, WindowPool
from equitangents.kernels.structured import Attend, BlockSums, Fitted, Mix, averages, deciding, fitted_windows


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


def mixed(values: Values, matrices: tuple[Any, ...]) -> Values:
    """A V A'ᵀ, with the matrix of each set of inputs."""
    cross = None if values.cross is None else _between(values.cross, matrices[0], matrices[-1], "nm")
    return Values(tuple(_between(v, a, a, "n") for v, a in zip(values.own, matrices, strict=True)), cross)


def _between(values: ArrayLike, a1: Any, a2: Any, inputs: str) -> ArrayLike:
    """A V A'ᵀ: one product after the other, since a path that is sought for all three may begin with A and A'."""
    half = jnp.einsum(f"prn,rs{inputs}->ps{inputs}", a1, values, precision="highest")
    return jnp.einsum(f"qs{inputs[-1]},ps{inputs}->pq{inputs}", a2, half, precision="highest")


def mixed_means(state: State, matrices: tuple[Any, ...]) -> tuple[Any, ...]:
    """A m of each set of inputs."""
    return tuple(
        jnp.einsum("prn,rn->pn", a, s.mean, precision="highest") for a, s in zip(matrices, state.sides, strict=True)
    )


def aggregated(op: Mix, state: State, graphs: tuple[Any, ...]) -> State:
    """Sums over neighbours, by a given matrix or by each input's graph."""
    masks = tuple(s.mask for s in state.sides)
    if op.matrix is None:
        return _by_matrices(state, tuple(g.astype(state.sides[0].q.dtype) for g in graphs), masks)
    if op.matrix.array.shape[0] != op.matrix.array.shape[1]:
        masks = (None,) * len(masks)
    return _by_matrices(state, _spread(op.matrix.array, state), masks)


def window_pooled(op: Pool | BlockSums | WindowPool, state: State, convention: str) -> State:
    """Means over whole windows, or sums: zeros stand at missing positions."""
    box = op.box
    assert box is not None
    matrix = window_averages(box) * (1 if op.is_pool else np.prod(box.window))
    at = deciding(box, convention)
    masks = tuple(None if s.mask is None else s.mask[at] for s in state.sides)
    return _by_matrices(state, _spread(matrix, state), masks)


def fitted_pools(op: Fitted, state: State) -> State:
    """Means over windows of each smaller input."""
    found = [averages(op, jnp.swapaxes(s.mask, 0, 1), s.q.dtype) for s in state.sides]
    masks = tuple(jnp.swapaxes(there, 0, 1) for _, there in found)
    return _by_matrices(state, tuple(a for a, _ in found), masks)


def fitted_means(op: Fitted, state: State) -> State:
    """K'(p, p') = mean over u of K at what the windows of both smaller inputs read u-th."""
    tables = [fitted_windows(op, jnp.swapaxes(s.mask, 0, 1)) for s in state.sides]
    reads = [tuple(jnp.moveaxis(t, 0, 1) for t in table[:2]) for table in tables]
    count = reads[0][0].shape[-1]

    def own(values: ArrayLike, i: Any, ok: Any) -> ArrayLike:
        n = np.arange(values.shape[-1])
        total: Any = 0.0
        for u in range(count):
            part = values[i[:, None, :, u], i[None, :, :, u], n]
            total = total + jnp.where(ok[:, None, :, u] & ok[None, :, :, u], part, 0)
        return total / count

    def cross(values: ArrayLike | None) -> ArrayLike | None:
        if values is None:
            return None
        (i1, ok1), (i2, ok2) = reads[0], reads[-1]
        n, m = np.arange(values.shape[-2])[:, None], np.arange(values.shape[-1])
        total: Any = 0.0
        for u in range(count):
            a, b = i1[:, None, :, None, u], i2[None, :, None, :, u]
            total = total + jnp.where(ok1[:, None, :, None, u] & ok2[None, :, None, :, u], values[a, b, n, m], 0)
        return total / count

    def all_read(values: Values) -> Values:
        return Values(tuple(own(v, *read) for v, read in zip(values.own, reads, strict=True)), cross(values.cross))

    means = tuple(
        jnp.where(ok, s.mean[i, np.arange(s.mean.shape[1])[:, None]], 0).mean(axis=-1)
        for s, (i, ok) in zip(state.sides, reads, strict=True)
    )
    masks = tuple(jnp.swapaxes(table[2], 0, 1) for table in tables)
    return of_covariances(all_read(covariances(state)), all_read(thetas(state)), means, masks)


def _spread(matrix: np.ndarray, state: State) -> tuple[Any, ...]:
    """One matrix for all inputs of each set."""
    values = jnp.asarray(matrix, state.sides[0].q.dtype)[:, :, None]
    return tuple(jnp.broadcast_to(values, (*matrix.shape, s.q.shape[1])) for s in state.sides)


def _by_matrices(state: State, matrices: tuple[Any, ...], masks: tuple[Any, ...]) -> State:
    ks, ts = mixed(covariances(state), matrices), mixed(thetas(state), matrices)
    return of_covariances(ks, ts, mixed_means(state, matrices), masks)


def pooled(op: Pool | BlockSums, state: State, tables: dict[str, Any]) -> State:
    """Means, or sums, over existing positions of a block."""

    def matrix(side: Side) -> Any:
        member = jnp.asarray(op.labels.array)[None, :, None] == jnp.arange(op.blocks)[:, None, None]
        if side.mask is not None:
            member = member & side.mask[None]
        weights = jnp.broadcast_to(member, (op.blocks, *side.q.shape)).astype(side.q.dtype)
        return weights / jnp.maximum(weights.sum(axis=1, keepdims=True), 1) if op.is_pool else weights

    matrices = tuple(map(matrix, state.sides))
    masks = tuple(None if s.mask is None else (a != 0).any(axis=1) for a, s in zip(matrices, state.sides, strict=True))
    return _by_matrices(state, matrices, masks)


def attended(op: Attend, state: State) -> State:
    """Attention with logits c K(f, f): K' = s² A K A'ᵀ + b², Θ' = 2 s² A K A'ᵀ + s² A Θ A'ᵀ + b²."""
    ks, ts = covariances(state), thetas(state)
    if not op.linear:
        return _by_root(op, state, ks, ts)
    weights = tuple(_weights(op, k, side) for k, side in zip(ks.own, state.sides, strict=True))
    new_ks = mixed(ks, weights)
    return _affine(op, state, new_ks, _each(lambda k, t: 2.0 * k + t, new_ks, mixed(ts, weights)))


def _weights(op: Attend, k: ArrayLike, side: Side) -> ArrayLike:
    """A(p, r) from K(p, r) of each input with itself, (P, P, N)."""
    logits = op.logit_scale * k
    if op.mechanism == "softmax":
        keep = jnp.ones_like(logits, bool) if side.mask is None else jnp.broadcast_to(side.mask[None], logits.shape)
        most = jnp.max(jnp.where(keep, logits, -jnp.inf), axis=1, keepdims=True)
        powers = jnp.where(keep, jnp.exp(jnp.where(keep, logits - jnp.where(jnp.isfinite(most), most, 0), 0)), 0)
        total = powers.sum(axis=1, keepdims=True)
        return powers / jnp.where(total > 0, total, 1)
    how = {"identity": lambda v: v, "relu": lambda v: jnp.maximum(v, 0), "abs": jnp.abs}[op.mechanism]
    return how(logits)


def _by_root(op: Attend, state: State, ks: Values, ts: Values) -> State:
    """Logits divided by the root of the number of key channels, without a nonlinearity.

    K' = s² c² K Σ_{r,r'} K(r,r')² + b², trilinear in K, and Θ' = 4 (K' - b²) + b² + Σ over the three of Θ in K's place.
    """
    square = op.logit_scale**2

    def kernel(k: Any) -> Any:
        return square * k * jnp.sum(k * k, axis=(0, 1))

    def tangent(k: Any, t: Any) -> Any:
        s, p = jnp.sum(k * k, axis=(0, 1)), jnp.sum(k * t, axis=(0, 1))
        return square * (4 * k * s + t * s + 2 * k * p)

    return _affine(op, state, ks.map(kernel), _each(tangent, ks, ts))


def _affine(op: Attend, state: State, ks: Values, ts: Values) -> State:
    ks, ts = (values.map(lambda v: op.value_var * v + op.b_var) for values in (ks, ts))
    means = tuple(jnp.zeros_like(s.mean) for s in state.sides)
    return of_covariances(ks, ts, means, tuple(s.mask for s in state.sides))


def _each(rule: Callable[[Any, Any], Any], ks: Values, ts: Values) -> Values:
    cross = None if ks.cross is None else rule(ks.cross, ts.cross)
    return Values(tuple(map(rule, ks.own, ts.own)), cross)
