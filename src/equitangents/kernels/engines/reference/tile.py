"""Kernels of one tile of input pairs: the sum over pair offsets, then layers on plain vectors; and the size of tiles.

Inputs have the layout (positions, N, channels), so that the pairs of a tile are contiguous at every position. A tile's
working set is (largest field) × (pairs in the tile) × (about ten fields); tiles are sized to stay near the cache, so
that peak memory does not grow with N1·N2·positions².
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents.errors import MemoryLimitError
from equitangents.kernels.angular import Both, both, moved, of_covariance, start, vanishing
from equitangents.kernels.duals import GeluDual, PiecewiseLinearDual
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines.reference.execute import (
    Moments,
    OffsetGeometry,
    PairGeometry,
    State,
    execute,
    field_moments,
    self_moments,
)
from equitangents.kernels.levels import GridLevel
from equitangents.kernels.operations import Affine, Box, Decouple, Dual, IndexTable, Standardise
from equitangents.kernels.plans import FieldPlan, OffsetPlan, PairPlan, Step, has_dual, places

TILE_ELEMENTS = 1 << 17  # numbers in one field of a tile
_FIELDS = 12  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile; only networks over all pairs of positions can come near
PANEL = 64 << 20  # bytes of prepared inputs that are held at a time, on each side


Plan = OffsetPlan | PairPlan | FieldPlan
_PLACES = "places"  # of the wanted pairs of a field, among the tables
_COPIES = 8  # of the values at all offsets of a field and of the wanted part, alive at once


def kernels_plan(plan: Plan) -> OffsetPlan | PairPlan:
    """The plan over pairs in a plan of kernels, or of a part of a kernel field."""
    return plan.plan if isinstance(plan, FieldPlan) else plan


def tables_of(plan: Plan) -> dict[str, Any]:
    """All index tables that running the plan needs."""
    tables = kernels_plan(plan).tables
    return tables | {_PLACES: places(plan).astype(np.int32)} if isinstance(plan, FieldPlan) else tables


def _kept(plan: Plan) -> int:
    """Number of values per pair of inputs that are kept to the end."""
    return max(plan.values, plan.part.numbers, 1) if isinstance(plan, FieldPlan) else 0


def tile_sides(plan: Plan, n1: int, n2: int, itemsize: int) -> tuple[int, int]:
    """Rows and columns of a tile; raises MemoryLimitError if even one pair of inputs is too large."""
    steps, kept = kernels_plan(plan), _kept(plan)
    if kept * _COPIES * itemsize > _MEMORY_LIMIT:
        task, remedy = "a kernel field of one pair of inputs", "ask for positions='same', or use smaller inputs"
        raise MemoryLimitError(task, kept * _COPIES * itemsize, _MEMORY_LIMIT, remedy)
    needed = steps.numbers * _FIELDS * itemsize
    if needed > _MEMORY_LIMIT:
        remedy = "use smaller inputs, a strided first layer, or one kind of padding before each pool"
        raise MemoryLimitError("one pair of inputs", needed, _MEMORY_LIMIT, remedy)
    pairs = max(1, TILE_ELEMENTS // max(steps.numbers, kept))
    side = max(1, int(pairs**0.5))
    rows = min(n1, side)
    return rows, min(n2, max(1, pairs // rows))


def prepared_numbers(plan: Plan, channels: int) -> int:
    """Number of values stored per input: the input, and its moments at every level."""
    steps = kernels_plan(plan)
    if steps.form == "offsets":
        levels = [level.positions for level in steps.levels]
        return levels[0] * channels + 2 * sum(levels) + 2 * (len(steps.vector) + 1)
    return max(steps.sizes) * (channels + 2 * len(steps.sizes))


def working_bytes(plan: Plan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes of the reference engine in addition to inputs and results: two panels of inputs, tables and one tile."""
    rows, columns = tile_sides(plan, n1, n2, itemsize)
    each = prepared_numbers(plan, channels) * itemsize
    panels = sum(min(-(-n // side) * side * each, max(PANEL, side * each)) for n, side in ((n1, rows), (n2, columns)))
    return panels + rows * columns * (kernels_plan(plan).numbers * _FIELDS + _kept(plan) * _COPIES) * itemsize


_VECTOR = GridLevel((), wrap=True)


class Prepared(NamedTuple):
    """Moments of one set of inputs: of the field, and of vectors after the readout, unless all is linear there."""

    field: Moments
    vector: Moments | None


def prepare(plan: Plan, tables: dict[str, Any], x: Any) -> Prepared:
    """Moments of the inputs x, (positions, N, channels)."""
    plan = kernels_plan(plan)
    q, mean = jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1)
    if plan.form == "pairs":
        e, _ = start(x[:, None], x[None], both(q[:, None], q[None]))
        return Prepared(self_moments(plan.steps, e, q, mean, tables), None)
    moments = field_moments(plan.last.steps, q, mean, tables)
    if not has_dual(plan.vector):
        return Prepared(moments, None)
    average = _average_of_read(plan, tables, q.dtype)
    # of a pool, the variances that are pooled over all offsets of an input with itself
    pooled = average(moments.q[-1]) if plan.single else _summed(plan, tables, x, x, moments, moments)[0]
    return Prepared(moments, field_moments(plan.vector, pooled[None], average(moments.mean[-1])[None], tables))


def _average_of_read(plan: OffsetPlan, tables: dict[str, Any], dtype: Any) -> Callable[[Any], Any]:
    """The mean over the positions that are read out, along the leading axis."""
    kept = (tables[plan.labels.key] >= 0).astype(dtype)
    # GPUs would otherwise multiply float32 in a format of ten bits.
    return partial(jnp.tensordot, kept / kept.sum(), axes=1, precision=lax.Precision.HIGHEST)


def tile(plan: Plan, tables: dict[str, Any], x1: Any, p1: Prepared, x2: Any, p2: Prepared) -> tuple[Any, Any]:
    """(NNGP, NTK) between x1, (positions, N1, channels), and x2, each (N1, N2); for a field (N1, N2, *tail)."""
    one, other = jax.tree.map(lambda f: f[..., :, None], p1), jax.tree.map(lambda f: f[..., None, :], p2)
    return pairs(plan, tables, x1[:, :, None], one, x2[:, None], other)


def pairs(plan: Plan, tables: dict[str, Any], x1: Any, p1: Prepared, x2: Any, p2: Prepared) -> tuple[Any, Any]:
    """(NNGP, NTK) of pairs of inputs (positions, *batch, channels), whose batch axes are aligned."""
    if isinstance(plan, FieldPlan):
        return _field(kernels_plan(plan), tables, x1, x2, p1.field, p2.field)
    if plan.form == "pairs":
        k, theta = over_pairs(plan, tables, x1, x2, p1.field, p2.field)
        return k[0, 0], theta[0, 0]
    if plan.single and has_dual(plan.vector):
        # A readout that is a mean of distances: these are read out, not K.
        return _vectors(plan, _flattened(plan, tables, x1, x2, p1, p2), p1, p2)[1:]
    k, theta = _summed(plan, tables, x1, x2, p1.field, p2.field)
    if p1.vector is None or p2.vector is None:
        return after_affine(plan.vector, k, theta)
    at = both(p1.vector.q[0][0], p2.vector.q[0][0])
    average = _average_of_read(plan, tables, k.dtype)
    terms = jnp.sqrt(average(p1.field.q[-1]) * average(p2.field.q[-1]))  # the pool may leave little of them
    angle = lambda k: of_covariance(k, at, terms)
    state = State(angle(k), theta, angle(-k) if _reads_opposite(plan.vector) else None)
    return _vectors(plan, state, p1, p2)[1:]


def _field(
    plan: OffsetPlan | PairPlan, tables: dict[str, Any], x1: Any, x2: Any, m1: Moments, m2: Moments
) -> tuple[Any, Any]:
    """(K, Θ) at the wanted pairs of positions, each (*batch, *tail), from (offsets or positions, positions, *batch)."""

    def one(label: Any) -> tuple[Any, Any]:
        assert plan.form == "offsets"
        _, state, at = run_offset(plan, tables, label, x1, x2, m1, m2)
        return state.covariance(at), state.theta

    if plan.form == "pairs":
        found = over_pairs(plan, tables, x1, x2, m1, m2)
    else:
        found = lax.map(jax.checkpoint(one), tables[plan.last.offsets.key])
    index = tables[_PLACES]
    k, theta = (
        jnp.moveaxis(v.reshape((-1, *v.shape[2:]))[index], range(index.ndim), range(-index.ndim, 0)) for v in found
    )
    return k, theta


def over_pairs(plan: PairPlan, tables: dict[str, Any], x1: Any, x2: Any, m1: Moments, m2: Moments) -> tuple[Any, Any]:
    """(K, Θ) at the end of a plan over pairs of positions, each (positions, positions, *batch)."""
    at = both(m1.q[0][:, None], m2.q[0][None])
    e, _ = start(x1[:, None], x2[None], at)
    state = execute(plan.steps, PairGeometry(tables), State(e, jnp.zeros_like(e)), m1, m2)
    return state.covariance(both(m1.q[-1][:, None], m2.q[-1][None])), state.theta


def begin(plan: OffsetPlan, geometry: OffsetGeometry, x1: Any, x2: Any, m1: Moments, m2: Moments) -> State:
    """The input's state at the pairs of an offset, with `opposite` if a kink reads it."""
    at = both(geometry.first(0, m1.q[0]), geometry.second(0, m2.q[0]))
    behind = plan.vector if plan.single else ()  # a readout that takes means of distances
    e, opposite = start(x1, geometry.second(0, x2), at, opposite=_reads_opposite((*plan.last.steps, *behind)))
    return State(e, jnp.zeros_like(e), opposite)


def _reads_opposite(ops: tuple[Step, ...]) -> bool:
    """Whether only linear layers, and functions that support `opposite`, precede a kink or an even function."""
    for op in ops:
        phi = op.nonlinearity
        if phi is not None and not (traits_of(phi).odd or isinstance(phi, GeluDual)):
            return isinstance(phi, PiecewiseLinearDual) or traits_of(phi).even
        if not isinstance(op, Affine | Box | IndexTable | Dual | Decouple | Standardise):
            break
    return False


def _vectors(plan: OffsetPlan, state: State, p1: Prepared, p2: Prepared) -> tuple[Any, Any, Any]:
    """(variance, NNGP, NTK) from the state of the vectors after the readout; the variance is that of the first."""
    assert p1.vector is not None
    assert p2.vector is not None
    state = execute(plan.vector, at_one_position(plan.vector), state.map(lambda x: x[None]), p1.vector, p2.vector)
    q1, q2 = p1.vector.q[-1], p2.vector.q[-1]
    return q1[0], state.covariance(both(q1, q2))[0], state.theta[0]


def diagonal(plan: Plan, tables: dict[str, Any], x: Any, p: Prepared) -> tuple[Any, Any]:
    """(NNGP, NTK) of each input of x, (positions, N, channels), with itself, each (N,); for a field (N, *tail)."""
    if isinstance(plan, FieldPlan) or plan.form == "pairs":
        return pairs(plan, tables, x, p, x, p)
    k, theta = _summed(plan, tables, x, x, p.field, p.field)
    if p.vector is None:
        return after_affine(plan.vector, k, theta)
    variance, _, theta = _vectors(plan, State(jnp.zeros_like(theta), theta), p, p)
    return variance, theta  # E is zero, and K is the variance


def at_one_position(ops: tuple[Step, ...]) -> OffsetGeometry:
    """The geometry of operations without positions."""
    return OffsetGeometry((_VECTOR,) * (len(ops) + 1), np.zeros((0,), np.int32), {})


def after_affine(ops: tuple[Step, ...], k: Any, theta: Any) -> tuple[Any, Any]:
    """(K, Θ) after linear layers."""
    for affine in (op.affine for op in ops):
        assert affine is not None
        before, k = k, affine.W_var * k + affine.b_var
        gain = k if affine.rates is None else affine.rates[0] * before + affine.rates[1]
        theta = gain + affine.W_var * theta
    return k, theta


def run_offset(
    plan: OffsetPlan, tables: dict[str, Any], label: Any, x1: Any, x2: Any, m1: Moments, m2: Moments
) -> tuple[OffsetGeometry, State, Both]:
    """(the pairs at an offset, the state at the end of the field, the variances there)."""
    geometry, last = OffsetGeometry(plan.levels, label, tables), len(plan.last.steps)
    state = execute(plan.last.steps, geometry, begin(plan, geometry, x1, x2, m1, m2), m1, m2)
    return geometry, state, both(geometry.first(last, m1.q[-1]), geometry.second(last, m2.q[-1]))


def _readout(plan: OffsetPlan, tables: dict[str, Any], geometry: OffsetGeometry, values: Any) -> Any:
    """Σ_p of the values at pairs whose two positions are in one block, with the pairs' weight."""
    labels = tables[plan.labels.key]
    partner, valid = geometry.partners(plan.levels[-1])
    joined = (labels == labels[partner]) & (labels >= 0) & valid
    joined = joined.reshape((-1,) + (1,) * (values.ndim - 1))
    return sum_in_groups(jnp.where(joined, plan.block_weight * values, 0))


def sum_in_groups(x: Any) -> Any:
    """Sum over the leading axis in two stages, whose rounding grows with the square root of its length."""
    n = x.shape[0]
    group = max(1, int(n**0.5))
    rest = n - n % group
    stages = jnp.sum(x[:rest].reshape((n // group, group, *x.shape[1:])), axis=1)
    return jnp.sum(stages, axis=0) + jnp.sum(x[rest:], axis=0)


def _flattened(plan: OffsetPlan, tables: dict[str, Any], x1: Any, x2: Any, p1: Prepared, p2: Prepared) -> State:
    """The state after a flattening readout, a mean of distances over positions."""
    assert p1.vector is not None
    assert p2.vector is not None
    to = both(p1.vector.q[0][0], p2.vector.q[0][0])
    label = plan.last.offsets.array[0]
    geometry, state, at = run_offset(plan, tables, label, x1, x2, p1.field, p2.field)
    read = state.angles(lambda e: moved(e, at, to.to)).map(partial(_readout, plan, tables, geometry))
    return read.angles(lambda distance: vanishing(distance, to))


def _summed(plan: OffsetPlan, tables: dict[str, Any], x1: Any, x2: Any, m1: Moments, m2: Moments) -> tuple[Any, Any]:
    """(K, Θ) after the readout, before the dense layers that follow it."""

    def one(label: Any) -> tuple[Any, Any]:
        geometry, state, at = run_offset(plan, tables, label, x1, x2, m1, m2)
        return tuple(_readout(plan, tables, geometry, v) for v in (state.covariance(at), state.theta))

    if plan.single:
        return one(plan.last.offsets.array[0])

    def add(sums: tuple[Any, Any, Any, Any], label: Any) -> tuple[tuple[Any, Any, Any, Any], None]:
        k, theta = one(label)
        return (*_compensated(sums[0], sums[1], k), *_compensated(sums[2], sums[3], theta)), None

    zero = jnp.zeros(jnp.broadcast_shapes(x1.shape[1:-1], x2.shape[1:-1]), x1.dtype)
    (k, _, theta, _), _ = lax.scan(jax.checkpoint(add), (zero, zero, zero, zero), tables[plan.last.offsets.key])
    return k, theta


def _compensated(total: Any, lost: Any, term: Any) -> tuple[Any, Any]:
    """Kahan summation: a million offsets in float32 would otherwise lose three digits."""
    y = term - lost
    new = total + y
    return new, (new - total) - y
