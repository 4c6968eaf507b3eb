"""Fields of structured programs over all pairs of positions, and what mixes these.

Attention, aggregation over graphs and pools under masks are sums over positions with each input's weights:
K' = A K A'ᵀ and Θ' = A Θ A'ᵀ, with A (positions_out, positions, N) of the first inputs and A' of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    """A field of sets of inputs: each set with itself, (P, P, N), and behind these, of two sets, one with the other,
    (P, P, N1, N2).
    """

    sides: tuple[Side, ...]
    pairs: tuple[Pairs, ...]


Values = tuple[Any, ...]  # K or Θ of all these pairs
Ends = tuple[Any, Any]  # what is known of the first and of the second inputs of pairs
Rule = Callable[[list[Pairs], list[Ends], Ends], Pairs]


def ends(sides: tuple[Any, ...]) -> Iterator[Ends]:
    """What is known of each set of inputs, at the pairs of a `State`, in their order."""
    yield from ((side, side) for side in sides)
    one, other = sides[0], sides[-1]
    yield jax.tree.map(lambda v: v[..., :, None], one), jax.tree.map(lambda v: v[..., None, :], other)


def merged(states: tuple[State, ...], sides: tuple[Side, ...], rule: Rule) -> State:
    """`rule` of the pairs of several fields, given the sides of each of them, and `sides` after."""
    before = (list(each) for each in zip(*(ends(s.sides) for s in states), strict=True))
    pairs = (list(each) for each in zip(*(s.pairs for s in states), strict=True))
    return State(sides, tuple(rule(*found) for found in zip(pairs, before, ends(sides), strict=False)))


def pointwise(state: State, sides: tuple[Side, ...], rule: Callable[[Pairs, Ends, Ends], Pairs]) -> State:
    """`rule` of the pairs of one field, given the sides before and after."""
    return masked(merged((state,), sides, lambda pairs, before, after: rule(pairs[0], before[0], after)))


def variances(a: Side, b: Side) -> Both:
    """The variances on both sides of every pair of positions."""
    return angular.both(a.q[:, None], b.q[None])


def covariances(state: State) -> Values:
    """K of a field."""
    each = zip(state.pairs, ends(state.sides), strict=False)
    return tuple(angular.covariance(pairs.e, variances(*both)) for pairs, both in each)


def thetas(state: State) -> Values:
    """Θ of a field."""
    return tuple(pairs.theta for pairs in state.pairs)


def of_covariances(ks: Values, thetas: Values, means: tuple[Any, ...], masks: tuple[Any, ...]) -> State:
    """The state of these kernels; variances are the diagonals of K of inputs with themselves."""
    sides = tuple(
        Side(jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), mean, mask)
        for k, mean, mask in zip(ks, means, masks, strict=False)
    )
    each = zip(ks, thetas, ends(sides), strict=False)
    return masked(State(sides, tuple(Pairs(angular.of_covariance(k, variances(*at)), t) for k, t, at in each)))


def masked(state: State) -> State:
    """Zero wherever a mask leaves no position."""
    if all(side.mask is None for side in state.sides):
        return state

    def clear(pairs: list[Pairs], _: list[Ends], after: Ends) -> Pairs:
        found = uncoupled(fields.State(*pairs[0]), ~_both_there(*after), variances(*after))
        return Pairs(found.e, found.theta)

    return merged((state,), tuple(map(_cleared, state.sides)), clear)


def _both_there(a: Side, b: Side) -> Any:
    return a.mask[:, None] & b.mask[None]


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
    """The state of one or two sets of inputs (P, N, C), with masks (N, P) or None."""
    sides = tuple(
        Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
        for x, mask in zip(xs, masks, strict=True)
    )
    signals = [(x[:, None], x[None]) for x in xs]
    if len(xs) == 2:
        signals.append((xs[0][:, None, :, None], xs[1][None, :, None, :]))
    distances = (angular.start(*both, variances(*at))[0] for both, at in zip(signals, ends(sides), strict=False))
    return State(sides, tuple(Pairs(e, jnp.zeros_like(e)) for e in distances))


def state_of_kernels(found: FieldKernels) -> State:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in found.own)
    thetas = (*map(jnp.zeros_like, found.own), found.ntk)
    return of_covariances((*found.own, found.nngp), thetas, means, found.masks)


def kernels_of(state: State) -> list[tuple[Any, Any]]:
    """(K, Θ) of all pairs of a state; zero where a mask leaves no position."""
    found = list(zip(covariances(state), thetas(state), strict=True))
    if any(side.mask is None for side in state.sides):
        return found
    there = (_both_there(*both) for both in ends(state.sides))
    return [(jnp.where(at, k, 0), jnp.where(at, theta, 0)) for (k, theta), at in zip(found, there, strict=False)]


def kernels_of_state(state: State) -> FieldKernels:
    """Kernels of a state of two sets of inputs."""
    *own, (nngp, ntk) = kernels_of(state)
    return FieldKernels(nngp, ntk, tuple(k for k, _ in own), tuple(side.mask for side in state.sides))


def mixed(values: Values, matrices: tuple[Any, ...]) -> Values:
    """A V A'ᵀ, with the matrix of each set of inputs."""
    each = (*((a, a) for a in matrices), (matrices[0], matrices[-1]))
    return tuple(_between(v, *both) for v, both in zip(values, each, strict=False))


def _between(values: ArrayLike, a1: Any, a2: Any) -> ArrayLike:
    """A V A'ᵀ: one product after the other, since a path that is sought for all three may begin with A and A'."""
    inputs = "nm"[: values.ndim - 2]
    half = jnp.einsum(f"prn,rs{inputs}->ps{inputs}", a1, values, precision="highest")
    return jnp.einsum(f"qs{inputs[-1]},ps{inputs}->pq{inputs}", a2, half, precision="highest")


def _mixed_means(state: State, matrices: tuple[Any, ...]) -> tuple[Any, ...]:
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
    reads = tuple(tuple(jnp.moveaxis(t, (0, 1, 2), (2, 1, 0)) for t in table[:2]) for table in tables)
    count = len(reads[0][0])

    def read(values: ArrayLike, one: Any, other: Any) -> ArrayLike:
        inputs = np.ogrid[tuple(slice(n) for n in values.shape[2:])]
        total: Any = 0.0
        for i, j, here, there in zip(one[0], other[0], one[1], other[1], strict=True):
            total = total + jnp.where(here[:, None] & there[None], values[i[:, None], j[None], *inputs], 0)
        return total / count

    ks, ts = (
        tuple(read(v, *both) for v, both in zip(values, ends(reads), strict=False))
        for values in (covariances(state), thetas(state))
    )
    means = tuple(
        jnp.where(ok, s.mean[i, np.arange(s.mean.shape[1])], 0).mean(axis=0)
        for s, (i, ok) in zip(state.sides, reads, strict=True)
    )
    return of_covariances(ks, ts, means, tuple(jnp.swapaxes(table[2], 0, 1) for table in tables))


def _spread(matrix: np.ndarray, state: State) -> tuple[Any, ...]:
    """One matrix for all inputs of each set."""
    values = jnp.asarray(matrix, state.sides[0].q.dtype)[:, :, None]
    return tuple(jnp.broadcast_to(values, (*matrix.shape, s.q.shape[1])) for s in state.sides)


def _by_matrices(state: State, matrices: tuple[Any, ...], masks: tuple[Any, ...]) -> State:
    ks, ts = mixed(covariances(state), matrices), mixed(thetas(state), matrices)
    return of_covariances(ks, ts, _mixed_means(state, matrices), masks)


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
    if op.linear:
        weights = tuple(_weights(op, k, side) for k, side in zip(ks, state.sides, strict=False))
        ks, ts = mixed(ks, weights), mixed(ts, weights)
        ts = tuple(2.0 * k + t for k, t in zip(ks, ts, strict=True))
    else:
        ks, ts = zip(*(_by_root(op.logit_scale**2, *both) for both in zip(ks, ts, strict=True)), strict=True)
    ks, ts = (tuple(op.value_var * v + op.b_var for v in values) for values in (ks, ts))
    means = tuple(jnp.zeros_like(s.mean) for s in state.sides)
    return of_covariances(ks, ts, means, tuple(s.mask for s in state.sides))


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


def _by_root(square: float, k: Any, t: Any) -> tuple[Any, Any]:
    """Of logits divided by the root of the number of key channels, without a nonlinearity; `square` is c².

    K' = s² c² K Σ_{r,r'} K(r,r')² + b², trilinear in K, and Θ' = 4 (K' - b²) + b² + Σ over the three of Θ in K's place.
    """
    s, p = jnp.sum(k * k, axis=(0, 1)), jnp.sum(k * t, axis=(0, 1))
    return square * k * s, square * (4 * k * s + t * s + 2 * k * p)
