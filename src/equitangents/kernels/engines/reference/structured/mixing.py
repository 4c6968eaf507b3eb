"""Sums over positions with weights of each input's own: attention, aggregation over graphs, pools under masks.

K' = A K A'ᵀ and Θ' = A Θ A'ᵀ, with A (positions_out, positions, N) of the first inputs and A' of the second.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.structured.fields import Side, State, covariances, of_covariances, thetas
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.operations import Pool, WindowPool
from equitangents.kernels.structured.masks import averages, deciding, fitted_windows
from equitangents.kernels.structured.program import Attend, BlockSums, Fitted, Mix

_Three = tuple[Any, Any, Any]


def mixed(values: _Three, a1: Any, a2: Any) -> _Three:
    """A V A'ᵀ of the three fields' values."""
    cross = None if values[2] is None else _between(values[2], a1, a2, "nm")
    return _between(values[0], a1, a1, "n"), _between(values[1], a2, a2, "n"), cross


def _between(values: ArrayLike, a1: Any, a2: Any, inputs: str) -> ArrayLike:
    """A V A'ᵀ: one product after the other, since a path that is sought for all three may begin with A and A'."""
    half = jnp.einsum(f"prn,rs{inputs}->ps{inputs}", a1, values, precision="highest")
    return jnp.einsum(f"qs{inputs[-1]},ps{inputs}->pq{inputs}", a2, half, precision="highest")


def mixed_means(state: State, a1: Any, a2: Any) -> tuple[Any, Any]:
    """A m of both sets of inputs."""
    return tuple(
        jnp.einsum("prn,rn->pn", a, s.mean, precision="highest") for a, s in ((a1, state.one), (a2, state.other))
    )  # type: ignore[return-value]


def aggregated(op: Mix, state: State, graphs: tuple[Any, Any]) -> State:
    """Sums over neighbours, by a given matrix or by each input's graph."""
    if op.matrix is not None:
        a1, a2 = _spread(op.matrix.array, state)
    else:
        a1, a2 = (g.astype(state.one.q.dtype) for g in graphs)
    masks = state.one.mask, state.other.mask
    if op.matrix is not None and op.matrix.array.shape[0] != op.matrix.array.shape[1]:
        masks = None, None
    return _by_matrices(state, (a1, a2), masks)


def window_pooled(op: Pool | BlockSums | WindowPool, state: State, convention: str) -> State:
    """Means over whole windows, or sums: zeros stand at missing positions."""
    box = op.box
    assert box is not None
    matrix = window_averages(box) * (np.prod(box.window) if isinstance(op, BlockSums) else 1)
    at = deciding(box, convention)
    masks = tuple(None if s.mask is None else s.mask[at] for s in (state.one, state.other))
    return _by_matrices(state, _spread(matrix, state), masks)


def fitted_pools(op: Fitted, state: State) -> State:
    """Means over windows of each smaller input."""
    found = [averages(op, jnp.swapaxes(s.mask, 0, 1), s.q.dtype) for s in (state.one, state.other)]
    masks = tuple(jnp.swapaxes(there, 0, 1) for _, there in found)
    return _by_matrices(state, tuple(a for a, _ in found), masks)


def fitted_means(op: Fitted, state: State) -> State:
    """K'(p, p') = mean over u of K at what the windows of both smaller inputs read u-th."""
    tables = [fitted_windows(op, jnp.swapaxes(s.mask, 0, 1)) for s in (state.one, state.other)]
    (i1, ok1), (i2, ok2) = (((jnp.moveaxis(t, 0, 1)) for t in table[:2]) for table in tables)
    count = i1.shape[-1]

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
        n, m = np.arange(values.shape[-2])[:, None], np.arange(values.shape[-1])
        total: Any = 0.0
        for u in range(count):
            a, b = i1[:, None, :, None, u], i2[None, :, None, :, u]
            total = total + jnp.where(ok1[:, None, :, None, u] & ok2[None, :, None, :, u], values[a, b, n, m], 0)
        return total / count

    def all_three(values: _Three) -> _Three:
        return own(values[0], i1, ok1), own(values[1], i2, ok2), cross(values[2])

    means = tuple(
        jnp.where(ok, s.mean[i, np.arange(s.mean.shape[1])[:, None]], 0).mean(axis=-1)
        for s, i, ok in ((state.one, i1, ok1), (state.other, i2, ok2))
    )
    masks = tuple(jnp.swapaxes(table[2], 0, 1) for table in tables)
    ks, ts = all_three(covariances(state)), all_three(thetas(state))
    return of_covariances(ks, ts, means, masks)  # type: ignore[arg-type]


def _spread(matrix: np.ndarray, state: State) -> tuple[Any, Any]:
    """One matrix for all inputs of both sets."""
    values = jnp.asarray(matrix, state.one.q.dtype)[:, :, None]
    return tuple(jnp.broadcast_to(values, (*matrix.shape, s.q.shape[1])) for s in (state.one, state.other))  # type: ignore[return-value]


def _by_matrices(state: State, matrices: tuple[Any, ...], masks: tuple[Any, ...]) -> State:
    ks, ts = mixed(covariances(state), *matrices), mixed(thetas(state), *matrices)
    return of_covariances(ks, ts, mixed_means(state, *matrices), masks)


def pooled(op: Pool | BlockSums, state: State, tables: dict[str, Any]) -> State:
    """Means over the positions of a block that masks leave, or sums."""

    def matrix(side: Side) -> Any:
        member = jnp.asarray(op.labels.array)[None, :, None] == jnp.arange(op.blocks)[:, None, None]
        if side.mask is not None:
            member = member & side.mask[None]
        weights = jnp.broadcast_to(member, (op.blocks, *side.q.shape)).astype(side.q.dtype)
        return weights if isinstance(op, BlockSums) else weights / jnp.maximum(weights.sum(axis=1, keepdims=True), 1)

    a1, a2 = matrix(state.one), matrix(state.other)
    masks = tuple(None if s.mask is None else (a != 0).any(axis=1) for a, s in ((a1, state.one), (a2, state.other)))
    return _by_matrices(state, (a1, a2), masks)


def attended(op: Attend, state: State) -> State:
    """Attention with logits c K(f, f): K' = s² A K A'ᵀ + b², Θ' = 2 s² A K A'ᵀ + s² A Θ A'ᵀ + b²."""
    ks, ts = covariances(state), thetas(state)
    if not op.linear:
        return _by_root(op, state, ks, ts)
    a1, a2 = (_weights(op, k, side) for k, side in ((ks[0], state.one), (ks[1], state.other)))
    new_ks, new_ts = mixed(ks, a1, a2), mixed(ts, a1, a2)
    return _affine(op, state, new_ks, tuple(_plus(_scaled(2.0, k), t) for k, t in zip(new_ks, new_ts, strict=True)))


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


def _by_root(op: Attend, state: State, ks: _Three, ts: _Three) -> State:
    """Logits divided by the root of the number of key channels, without a nonlinearity.

    K' = s² c² K Σ_{r,r'} K(r,r')² + b², trilinear in K, and Θ' = 4 (K' - b²) + b² + Σ over the three of Θ in K's place.
    """
    square = op.logit_scale**2
    sums = tuple(None if k is None else jnp.sum(k * k, axis=(0, 1)) for k in ks)
    products = tuple(None if k is None else jnp.sum(k * t, axis=(0, 1)) for k, t in zip(ks, ts, strict=True))
    new_ks = tuple(None if k is None else square * k * s for k, s in zip(ks, sums, strict=True))
    new_ts = tuple(
        None if k is None else square * (4 * k * s + t * s + 2 * k * p)
        for k, t, s, p in zip(ks, ts, sums, products, strict=True)
    )
    return _affine(op, state, new_ks, new_ts)


def _affine(op: Attend, state: State, ks: Any, ts: Any) -> State:
    ks, ts = ([_plus(_scaled(op.value_var, v), op.b_var) for v in values] for values in (ks, ts))
    means = tuple(jnp.zeros_like(s.mean) for s in (state.one, state.other))
    return of_covariances(tuple(ks), tuple(ts), means, (state.one.mask, state.other.mask))  # type: ignore[arg-type]


def _scaled(factor: float, value: Any) -> Any:
    return None if value is None else factor * value


def _plus(value: Any, other: Any) -> Any:
    return None if value is None else value + other
