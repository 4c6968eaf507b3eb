"""Structured programs over all pairs of positions, with the reference engine's rules for field programs.

Attention, aggregation over graphs and pools under masks are sums over positions with each input's weights:
K' = A K A'ᵀ and Θ' = A Θ A'ᵀ, with A (positions_out, positions, N) of the first inputs and A' of the second.

They run in tiles of pairs of inputs, in double precision; kernel fields run one pair of inputs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import MemoryLimitError
from equitangents.kernels import angular
from equitangents.kernels.angular import Both
from equitangents.kernels.engines.protocol import Pair, StructuredRules
from equitangents.kernels.engines.reference import execute as fields
from equitangents.kernels.engines.reference.execute import (
    Moments,
    PairGeometry,
    field_moments,
    joined,
    joined_angles,
    pool_mean,
    pool_pairs,
    shared,
    uncoupled,
)
from equitangents.kernels.engines.reference.tile import TILE_ELEMENTS
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.operations import Box, Flattening, Pool, WindowPool
from equitangents.kernels.program import Op, ParallelBranches, flat
from equitangents.kernels.result import READOUT, Part
from equitangents.kernels.structured import (
    Attend,
    BlockSums,
    Drop,
    MaskedBatch,
    Mix,
    Normalise,
    StructuredProgram,
    Times,
    deciding,
    positions,
    typed,
)
from equitangents.structured import SMALLER, any_mask


class Side(NamedTuple):
    """Moments of one set of inputs: variances, means and masks, (positions, N)."""

    q: Any
    mean: Any
    mask: Any  # bool, True where there is a position; None: everywhere


class JointState(NamedTuple):
    """A field of one or two sets of inputs: each set with itself, (P, P, N), and for two sets also one with the other,
    (P, P, N1, N2).
    """

    sides: tuple[Side, ...]
    pairs: tuple[fields.State, ...]

    @property
    def means(self) -> tuple[Any, ...]:
        """The means of each set of inputs."""
        return tuple(side.mean for side in self.sides)

    @property
    def masks(self) -> tuple[Any, ...]:
        """The masks of each set of inputs."""
        return tuple(side.mask for side in self.sides)


Pairs = fields.State  # over (p, p', *inputs)
Values = tuple[Any, ...]  # K or Θ of all these pairs
Ends = tuple[Any, Any]  # what is known of the first and of the second inputs of pairs
Rule = Callable[[list[Pairs], list[Ends], Ends], Pairs]


def ends(sides: tuple[Any, ...]) -> Iterator[Ends]:
    """Yield the (first side, second side) of each entry of a `JointState`, in order."""
    yield from ((side, side) for side in sides)
    one, other = sides[0], sides[-1]
    yield jax.tree.map(lambda v: v[..., :, None], one), jax.tree.map(lambda v: v[..., None, :], other)


def merged(states: tuple[JointState, ...], sides: tuple[Side, ...], rule: Rule) -> JointState:
    """`rule` applied to the pairs of several fields with their sides; `sides`: those of the result."""
    before = (list(each) for each in zip(*(ends(s.sides) for s in states), strict=True))
    pairs = (list(each) for each in zip(*(s.pairs for s in states), strict=True))
    return JointState(sides, tuple(rule(*found) for found in zip(pairs, before, ends(sides), strict=False)))


def pointwise(state: JointState, sides: tuple[Side, ...], rule: Callable[[Pairs, Ends, Ends], Pairs]) -> JointState:
    """`rule` applied to the pairs of one field, with the sides before and after."""
    return masked(merged((state,), sides, lambda pairs, before, after: rule(pairs[0], before[0], after)))


def variances(a: Side, b: Side) -> Both:
    """The variances on both sides of every pair of positions."""
    return angular.both(a.q[:, None], b.q[None])


def covariances(state: JointState) -> Values:
    """K of a field."""
    each = zip(state.pairs, ends(state.sides), strict=False)
    return tuple(angular.covariance(pairs.e, variances(*both)) for pairs, both in each)


def thetas(state: JointState) -> Values:
    """Θ of a field."""
    return tuple(pairs.theta for pairs in state.pairs)


def of_covariances(ks: Values, thetas: Values, means: tuple[Any, ...], masks: tuple[Any, ...]) -> JointState:
    """The state with these kernels; variances are the diagonals of K of inputs with themselves."""
    sides = tuple(
        Side(jnp.moveaxis(jnp.diagonal(k, axis1=0, axis2=1), -1, 0), mean, mask)
        for k, mean, mask in zip(ks, means, masks, strict=False)
    )
    each = zip(ks, thetas, ends(sides), strict=False)
    return masked(JointState(sides, tuple(Pairs(angular.of_covariance(k, variances(*at)), t) for k, t, at in each)))


def masked(state: JointState) -> JointState:
    """The state with zeros at missing positions."""

    def clear(pairs: list[Pairs], _: list[Ends], after: Ends) -> Pairs:
        return uncoupled(pairs[0], ~_both_there(*after), variances(*after))

    if any(mask is None for mask in state.masks):
        return state
    cleared = (Side(jnp.where(s.mask, s.q, 0), jnp.where(s.mask, s.mean, 0), s.mask) for s in state.sides)
    return merged((state,), tuple(cleared), clear)


def _both_there(a: Side, b: Side) -> Any:
    return a.mask[:, None] & b.mask[None]


class FieldKernels(NamedTuple):
    """Kernels over all pairs of positions: K and Θ between two sets of inputs, (P, P', N1, N2), and K of each set's
    inputs with themselves, (P, P', N); masks (P, N) or None.
    """

    nngp: Any
    ntk: Any
    own: tuple[Any, ...]
    masks: tuple[Any, ...]


def state_of_inputs(xs: tuple[ArrayLike, ...], masks: tuple[ArrayLike | None, ...]) -> JointState:
    """The state of one or two sets of inputs (P, N, C), with masks (N, P) or None."""
    sides = tuple(
        Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
        for x, mask in zip(xs, masks, strict=True)
    )
    signals = [(x[:, None], x[None]) for x in xs]
    if len(xs) == 2:
        signals.append((xs[0][:, None, :, None], xs[1][None, :, None, :]))
    distances = (angular.start(*both, variances(*at))[0] for both, at in zip(signals, ends(sides), strict=False))
    return JointState(sides, tuple(Pairs(e, jnp.zeros_like(e)) for e in distances))


def state_of_kernels(found: FieldKernels) -> JointState:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in found.own)
    thetas = (*map(jnp.zeros_like, found.own), found.ntk)
    return of_covariances((*found.own, found.nngp), thetas, means, found.masks)


def kernels_of(state: JointState) -> list[tuple[Any, Any]]:
    """(K, Θ) of all pairs of a state; zero at missing positions."""
    found = list(zip(covariances(state), thetas(state), strict=True))
    if any(mask is None for mask in state.masks):
        return found
    present = (_both_there(*both) for both in ends(state.sides))
    return [(jnp.where(at, k, 0), jnp.where(at, theta, 0)) for (k, theta), at in zip(found, present, strict=False)]


def kernels_of_state(state: JointState) -> FieldKernels:
    """Kernels of a state of two sets of inputs."""
    *own, (nngp, ntk) = kernels_of(state)
    return FieldKernels(nngp, ntk, tuple(k for k, _ in own), state.masks)


def mixed(values: Values, matrices: tuple[Any, ...]) -> Values:
    """A V A'ᵀ, with the matrix of each set of inputs."""
    each = (*((a, a) for a in matrices), (matrices[0], matrices[-1]))
    return tuple(_between(v, *both) for v, both in zip(values, each, strict=False))


def _between(values: ArrayLike, a1: Any, a2: Any) -> ArrayLike:
    """A V A'ᵀ by two consecutive products, since an optimised path for all three may begin with A and A'."""
    inputs = "nm"[: values.ndim - 2]
    half = jnp.einsum(f"prn,rs{inputs}->ps{inputs}", a1, values, precision="highest")
    return jnp.einsum(f"qs{inputs[-1]},ps{inputs}->pq{inputs}", a2, half, precision="highest")


def aggregated(op: Mix, state: JointState, context: Context) -> JointState:
    """Sums over neighbours, by a fixed matrix or by each input's graph."""
    if op.matrix is None:
        return _by_matrices(state, tuple(g.astype(state.sides[0].q.dtype) for g in context.graphs), state.masks)
    square = op.matrix.array.shape[0] == op.matrix.array.shape[1]
    return _by_matrices(state, _tiled(op.matrix.array, state), state.masks if square else (None,) * len(state.sides))


def _window_pooled(op: Pool | BlockSums | WindowPool, state: JointState, convention: str) -> JointState:
    """Means or sums over full windows, with zeros at missing positions."""
    box = op.box
    assert box is not None
    matrix = window_averages(box) * (1 if op.is_pool else np.prod(box.window))
    at = deciding(box, convention)
    masks = tuple(None if mask is None else mask[at] for mask in state.masks)
    return _by_matrices(state, _tiled(matrix, state), masks)


def _tiled(matrix: np.ndarray, state: JointState) -> tuple[Any, ...]:
    """One matrix for all inputs of each set."""
    values = jnp.asarray(matrix, state.sides[0].q.dtype)[:, :, None]
    return tuple(jnp.broadcast_to(values, (*matrix.shape, s.q.shape[1])) for s in state.sides)


def _by_matrices(state: JointState, matrices: tuple[Any, ...], masks: tuple[Any, ...]) -> JointState:
    """The state with A K A'ᵀ, A Θ A'ᵀ and A m, for the matrices A of each set of inputs."""
    ks, ts = mixed(covariances(state), matrices), mixed(thetas(state), matrices)
    each = zip(matrices, state.means, strict=True)
    return of_covariances(ks, ts, tuple(jnp.einsum("prn,rn->pn", *both, precision="highest") for both in each), masks)


def _block_pooled(op: Pool | BlockSums, state: JointState) -> JointState:
    """Means or sums over the existing positions of each block."""

    def matrix(side: Side) -> Any:
        member = jnp.asarray(op.labels.array)[None, :, None] == jnp.arange(op.blocks)[:, None, None]
        if side.mask is not None:
            member = member & side.mask[None]
        weights = jnp.broadcast_to(member, (op.blocks, *side.q.shape)).astype(side.q.dtype)
        return weights / jnp.maximum(weights.sum(axis=1, keepdims=True), 1) if op.is_pool else weights

    matrices = tuple(map(matrix, state.sides))
    masks = tuple(None if mask is None else (a != 0).any(axis=1) for a, mask in zip(matrices, state.masks, strict=True))
    return _by_matrices(state, matrices, masks)


def attended(op: Attend, state: JointState, context: Context) -> JointState:
    """Attention with logits c K(f, f): K' = s² A K A'ᵀ + b², Θ' = 2 s² A K A'ᵀ + s² A Θ A'ᵀ + b²."""
    ks, ts = covariances(state), thetas(state)
    if op.linear:
        weights = tuple(_weights(op, k, side) for k, side in zip(ks, state.sides, strict=False))
        ks, ts = mixed(ks, weights), mixed(ts, weights)
        ts = tuple(2.0 * k + t for k, t in zip(ks, ts, strict=True))
    else:
        ks, ts = zip(*(_by_root(op.logit_scale**2, *both) for both in zip(ks, ts, strict=True)), strict=True)
    ks, ts = (tuple(op.value_var * v + op.b_var for v in values) for values in (ks, ts))
    return of_covariances(ks, ts, tuple(map(jnp.zeros_like, state.means)), state.masks)


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
    """Attention with logits divided by the square root of the number of key channels, without softmax; `square` is c².

    K' = s² c² K Σ_{r,r'} K(r,r')² + b², trilinear in K, and Θ' = 4 (K' - b²) + b² + the sum with Θ in place of each K.
    """
    s, p = jnp.sum(k * k, axis=(0, 1)), jnp.sum(k * t, axis=(0, 1))
    return square * k * s, square * (4 * k * s + t * s + 2 * k * p)


@dataclass(frozen=True)
class Context:
    """Context of operations: tables, graphs (P, P, N) of each set of inputs, and which pairs of inputs are the same
    input.
    """

    tables: dict[str, Any]
    graphs: tuple[Any, ...]
    same: Any  # (N1, N2) bool, or None where no input of one set is one of the other
    masks: str = SMALLER  # masks after windows


def tables_of(ops: tuple[Any, ...]) -> dict[str, Any]:
    """The tables used by operations, by key."""
    return {key: jnp.asarray(table) for op in flat(ops) for key, table in op.tables.items()}


def execute(ops: tuple[Any, ...], states: tuple[JointState, ...], context: Context) -> tuple[JointState, ...]:
    """The fields after `ops`; several between branches and their join."""
    for op in ops:
        if op.is_branching:
            states = _parallel(op, states, context)
        else:
            states = (_RULES.get(type(op), _plain)(op, states[0], context),)
    return states


def _parallel(op: ParallelBranches, states: tuple[JointState, ...], context: Context) -> tuple[JointState, ...]:
    if op.branches:
        each = zip(op.branches, states * len(op.branches) if len(states) == 1 else states, strict=True)
        states = tuple(found for branch, state in each for found in execute(branch, (state,), context))
    return (_join(op.shares, states),) if op.joined else states


def _join(shares: tuple[float, ...] | None, parts: tuple[JointState, ...]) -> JointState:
    """The sum of fields, or their concatenated channels."""

    def rule(pairs: list[Pairs], before: list[Ends], all_ends: Ends) -> Pairs:
        ends = [variances(*sides) for sides in before]
        means = ((a.mean[:, None], b.mean[None]) for a, b in before)
        e = joined_angles(shares, [p.e for p in pairs], ends, means, variances(*all_ends))
        return Pairs(e, shared(shares, [p.theta for p in pairs]))

    sides = zip(*(state.sides for state in parts), strict=True)
    found = (
        Side(*joined(shares, [s.q for s in own], [s.mean for s in own]), any_mask([s.mask for s in own]))
        for own in sides
    )
    return merged(parts, tuple(found), rule)


def _plain(op: Op, state: JointState, context: Context) -> JointState:
    """The state after an operation of field programs that acts on each position separately."""
    steps = [field_moments((op,), s.q, s.mean, context.tables) for s in state.sides]
    sides = tuple(
        Side(step.q[1], step.mean[1], _mask_after(op, s.mask, context.masks))
        for step, s in zip(steps, state.sides, strict=True)
    )

    def rule(pairs: Pairs, before: Ends, after: Ends) -> Pairs:
        moments = (Moments([v.q, w.q], [v.mean, w.mean]) for v, w in zip(before, after, strict=True))
        return fields.execute((op,), PairGeometry(context.tables), pairs, *moments)

    return pointwise(state, sides, rule)


def _mask_after(op: Op, mask: Any, convention: str) -> Any:
    """The mask after a window: its output exists if the position that decides it exists."""
    if mask is None or not op.is_window:
        return mask
    assert isinstance(op, Box)  # layers refuse masks on groups
    return mask[deciding(op, convention)]


def _pool(op: Any, state: JointState, context: Context) -> JointState:
    """Means or sums over blocks or windows; under masks only of existing positions."""
    masked = state.sides[0].mask is not None
    if op.is_pool and not masked:
        return _pooled(op, state, context)
    if masked and op.box is not None:
        return _window_pooled(op, state, context.masks)
    return _block_pooled(op, state)


def _pooled(op: Pool | WindowPool | Flattening, state: JointState, context: Context) -> JointState:
    pool = partial(pool_pairs, op, tables=context.tables)
    ks, ts = (tuple(map(pool, values)) for values in (covariances(state), thetas(state)))
    means = tuple(pool_mean(op, mean, context.tables) for mean in state.means)
    masks = tuple(None if mask is None else mask.any(axis=0, keepdims=True) for mask in state.masks)
    return of_covariances(ks, ts, means, masks)


def _times(op: Times, state: JointState, context: Context) -> JointState:
    square = op.factor**2
    sides = tuple(Side(square * s.q, op.factor * s.mean, s.mask) for s in state.sides)
    return pointwise(state, sides, lambda pairs, before, after: Pairs(square * pairs.e, square * pairs.theta))


def _normalised(op: Normalise, state: JointState, context: Context) -> JointState:
    """K' = (K - μ m' - m μ' + μ μ')/(σ σ'), with μ and σ² of each position, or over all positions."""

    def statistics(side: Side) -> tuple[Any, Any]:
        if not op.positions:
            return side.mean, side.q - side.mean**2
        mask = jnp.ones_like(side.q) if side.mask is None else side.mask.astype(side.q.dtype)
        count = jnp.maximum(together(mask), 1)
        mean = together(mask * side.mean) / count
        return mean, together(mask * side.q) / count - mean**2

    def together(values: Any) -> Any:
        """Sums over all positions, or over each position's group."""
        if op.groups is None:
            return values.sum(axis=0, keepdims=True)
        alike = op.groups.array[:, None] == op.groups.array
        return jnp.tensordot(jnp.asarray(alike, values.dtype), values, axes=1, precision="highest")

    found = [(s.mean, *statistics(s)) for s in state.sides]
    normalisers = [(m, mu, jnp.sqrt(jnp.maximum(v, 0) + op.eps)) for m, mu, v in found]
    means = tuple((m - mu) / r for m, mu, r in normalisers)

    def scaled(k: ArrayLike, theta: ArrayLike, first: Any, second: Any) -> tuple[ArrayLike, ArrayLike]:
        (m, mu, r), (m2, mu2, r2) = (v[:, None] for v in first), (v[None] for v in second)
        scale = r * r2
        return (k - mu * m2 - m * mu2 + mu * mu2) / scale, theta / scale

    each = zip(covariances(state), thetas(state), ends(tuple(normalisers)), strict=False)
    ks, ts = zip(*(scaled(k, t, *both) for k, t, both in each), strict=True)
    return of_covariances(ks, ts, means, state.masks)


def _dropped(op: Drop, state: JointState, context: Context) -> JointState:
    """K and Θ multiplied by 1/keep where a draw meets itself; each position of each input has its own draw."""
    surplus = 1 / op.keep - 1

    same = (*(True for _ in state.sides), context.same)

    def grown(values: Values) -> Values:
        positions, dtype = values[0].shape[0], values[0].dtype
        diagonals = (
            jnp.eye(positions, dtype=dtype).reshape((positions, positions) + (1,) * (v.ndim - 2)) for v in values
        )
        each = zip(values, diagonals, same, strict=False)
        return tuple(v if at is None else v * (1 + surplus * d * jnp.asarray(at, dtype)) for v, d, at in each)

    return of_covariances(grown(covariances(state)), grown(thetas(state)), state.means, state.masks)


_RULES: dict[type, Any] = {
    Times: _times,
    Normalise: _normalised,
    Drop: _dropped,
    Attend: attended,
    Mix: aggregated,
    Pool: _pool,
    BlockSums: _pool,
    WindowPool: _pool,
    Flattening: _pooled,
}


_FIELDS = 16  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile


class TiledStructured(StructuredRules):
    """Every structured program, and its kernel fields, in pure JAX."""

    def obstacle(self, program: StructuredProgram) -> str | None:
        return None

    def kernels(self, program: StructuredProgram, one: MaskedBatch, other: MaskedBatch | None) -> Pair:
        return tiled(program, one, other, None, np.float64)

    def diagonal(self, program: StructuredProgram, batch: MaskedBatch) -> Pair:
        return own(program, batch, None)

    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of one tile."""
        return _side(program) ** 2 * positions(program) ** 2 * _FIELDS * 8


def _side(program: StructuredProgram) -> int:
    """Inputs on each side of a tile; raises MemoryLimitError if even one pair is too large."""
    field = positions(program) ** 2
    needed = field * _FIELDS * 8
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError("one pair of inputs", needed, _MEMORY_LIMIT, "use smaller inputs, or pool before")
    return max(1, int((TILE_ELEMENTS // field) ** 0.5))


def tiled(
    program: StructuredProgram,
    one: MaskedBatch,
    other: MaskedBatch | None,
    part: Part | None,
    dtype: DType,
    wanted: np.ndarray | None = None,
) -> Pair:
    """(NNGP, NTK) between two sets of inputs (None: the first with itself), (N1, N2), or a part of their field.

    `wanted`: mask (N1, N2) of the needed pairs; others may be zero.
    """
    kept, second = part or READOUT, one if other is None else other
    symmetric = other is None
    most = _side(program) if part is None else 1
    n1, n2 = len(one.x), len(second.x)
    rows, columns = min(most, n1), min(most, n2)
    nngp, ntk = kept.zeros((n1, n2), dtype), kept.zeros((n1, n2), dtype)
    with precision.scope(np.float64), np.errstate(over="ignore", under="ignore"):
        for i in range(0, n1, most):
            for j in range(i if symmetric else 0, n2, most):
                r, c = slice(i, min(i + most, n1)), slice(j, min(j + most, n2))
                if wanted is not None and not wanted[r, c].any():
                    continue
                same = np.eye(rows, columns) > (0 if other is None and i == j else 1)
                found = _compiled(program, part, (_filled(one.rows(r), rows), _filled(second.rows(c), columns)), same)
                for out, values in zip((nngp, ntk), found, strict=True):
                    kept.write(out, r, c, values, symmetric)
    return nngp, ntk


def own(program: StructuredProgram, batch: MaskedBatch, part: Part | None) -> Pair:
    """(NNGP, NTK) of every input with itself, (N,), or a part of its field, (N, *part.tail)."""
    size = _side(program) ** 2 if part is None else 1
    found = [np.zeros((2, 0, *(part or READOUT).tail))]
    with precision.scope(np.float64):
        for i in range(0, len(batch.x), size):
            rows = _filled(batch.rows(slice(i, i + size)), min(size, len(batch.x)))
            found.append(np.stack([np.asarray(v) for v in _compiled(program, part, (rows,))]))
    nngp, ntk = np.concatenate(found, axis=1)[:, : len(batch.x)]
    return nngp, ntk


def traced(program: StructuredProgram, batches: tuple[MaskedBatch, ...], part: Part | None, dtype: DType) -> Pair:
    """As `own` for one set of inputs, or as `tiled` for two, in one tile inside a JAX program.

    If both sets are the same object, they are treated as one set with itself.
    """
    same = jnp.eye(len(batches[0].x), dtype=bool) if len(batches) == 2 and batches[0] is batches[1] else None
    return _kernels(program, part, tuple(typed(batch, dtype) for batch in batches), same)


def _filled(batch: MaskedBatch, size: int) -> MaskedBatch:
    """The batch in double precision, padded by its last input to `size`, so that equal shapes compile once."""

    def fill(values: ArrayLike | None, dtype: DType) -> np.ndarray | None:
        if values is None:
            return None
        values = np.asarray(values, dtype)
        return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])

    return MaskedBatch(fill(batch.x, np.float64), fill(batch.mask, bool), fill(batch.graphs, np.float64))


def _kernels(
    program: StructuredProgram, part: Part | None, batches: tuple[MaskedBatch, ...], same: jax.Array | None = None
) -> Pair:
    """(NNGP, NTK) of inputs with themselves, (N,), or between two sets, (N1, N2); for a part (…, *part.tail)."""
    xs = tuple(jnp.swapaxes(jnp.asarray(b.x), 0, 1) for b in batches)
    graphs = tuple(None if b.graphs is None else jnp.moveaxis(jnp.asarray(b.graphs), 0, -1) for b in batches)
    context = Context(tables_of(program.ops), graphs, same, program.space.masks)
    (end,) = execute(program.ops, (state_of_inputs(xs, tuple(b.mask for b in batches)),), context)
    nngp, ntk = kernels_of(end)[-1]
    return _picked(part, nngp), _picked(part, ntk)


_compiled = jax.jit(_kernels, static_argnums=(0, 1))


def _picked(part: Part | None, values: jax.Array) -> jax.Array:
    """From (P, P', *inputs), the only position's entry, or the wanted pairs of positions: (*inputs, *tail)."""
    if part is None:
        return values[0, 0]
    first, second = part.positions()
    return jnp.moveaxis(values[first, second], tuple(range(first.ndim)), tuple(range(-first.ndim, 0)))
