"""Kernels of one tile of input pairs: the sum over fibres, then the layers on plain vectors.

Inputs are laid out (positions, N, channels), so that the pairs of a tile are contiguous at every position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from equitangents.kernels.duals import PiecewiseLinear
from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry, Distance, EitherDistance
from equitangents.kernels.engines.reference.execute import State, execute
from equitangents.kernels.engines.reference.fibre import FibreGeometry
from equitangents.kernels.engines.reference.moments import Moments, field_moments
from equitangents.kernels.engines.reference.pairs import PairGeometry, self_moments
from equitangents.kernels.plans.levels import GridLevel, Levels, still
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, has_dual
from equitangents.kernels.program import Affine, Box, Decouple, Dual, Op, Standardise, Table
from equitangents.kernels.units import first_unit_bias, leaves_units, unit_bias, with_biases

_VECTOR = GridLevel((), wrap=True)


class Prepared(NamedTuple):
    """What is known of one set of inputs alone: moments in the field, and of the vectors after the readout.

    All of it is that of the inputs divided by their units, (N,), if they have any, up to where these are left.
    """

    field: Moments
    vector: Moments | None
    unit: jax.Array | None

    def scaled(self, x: jax.Array) -> jax.Array:
        """The inputs x, (positions, *batch, channels), in their units."""
        return x if self.unit is None else x / self.unit[..., None]


def in_units(
    plan: FibrePlan | PairPlan, x: jax.Array, axes: int | tuple[int, ...], whole: bool = True
) -> tuple[jax.Array, jax.Array | None]:
    """(x divided by its units, these), of which each is a mean over `axes`; or (x, None).

    Of `whole` networks alone, or also of those in which units are left. Kernels do not depend on units, so their
    derivatives do not either.
    """
    if isinstance(plan, PairPlan):
        added = unit_bias(plan.ops)
    else:
        added = (unit_bias if whole else first_unit_bias)(plan.field, plan.vector)
    if added is None:
        return x, None
    square = jax.lax.stop_gradient(jnp.mean(x * x, axis=axes, keepdims=True)) + added
    usable = (square > 0) & (square < jnp.inf)
    unit = jnp.where(usable, jnp.sqrt(jnp.where(usable, square, 1)), 1)
    return x / unit, jnp.squeeze(unit, axes)


def prepare(
    plan: FibrePlan | PairPlan, tables: dict[str, Any], x: Any, own: Callable[[Moments], Any] | None = None
) -> Prepared:
    """Moments of the inputs x, (positions, N, channels).

    `own` gives the variances of the pooled vectors from the field's moments, where another engine sums the fibres.
    """
    x, unit = in_units(plan, x, (0, 2), whole=own is not None)
    if unit is not None:
        plan = with_biases(plan, 1 / unit)
    q, mean = jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1)
    if isinstance(plan, PairPlan):
        d = jnp.mean((x[:, None] - x[None]) ** 2, axis=-1)
        return Prepared(self_moments(plan.ops, d, q, mean, tables), None, unit)
    moments = field_moments(plan.field, q, mean, tables, unit)
    if not has_dual(plan.vector):
        return Prepared(moments, None, unit)
    kept = (tables[plan.labels.key] >= 0).astype(x.dtype)
    # GPUs would otherwise multiply float32 in a format of ten bits.
    average = partial(jnp.matmul, kept / kept.sum(), precision=lax.Precision.HIGHEST)
    pooled_mean, diagonal = average(moments.mean[-1]), average(moments.q[-1])
    within = from_either(plan, DISTANCE).in_units(unit, unit)
    own = own or (lambda m: _sum_fibres(plan, tables, x, x, m, m, within)[0])
    pooled = diagonal if plan.single else own(moments)
    kept_unit = None if any(map(leaves_units, plan.field)) else unit
    return Prepared(moments, field_moments(plan.vector, pooled[None], pooled_mean[None], tables, kept_unit), unit)


def tile(
    plan: FibrePlan | PairPlan,
    tables: dict[str, Any],
    x1: Any,
    p1: Prepared,
    x2: Any,
    p2: Prepared,
    carry: Carry = DISTANCE,
) -> tuple[Any, Any]:
    """(NNGP, NTK) between x1, (positions, N1, channels), and x2, each (N1, N2)."""
    p1, p2 = aligned(p1, p2)
    x1, x2 = p1.scaled(x1[:, :, None]), p2.scaled(x2[:, None])
    carry = from_either(plan, carry)
    within = carry.in_units(p1.unit, p2.unit)
    if isinstance(plan, PairPlan):
        d = within.start(x1[:, None], x2[None])
        geometry = PairGeometry(tables, within)
        state = execute(plan.ops, geometry, State(d, jnp.zeros_like(d)), p1.field, p2.field, within)
        k = within.covariance(state.d, p1.field.q[-1], p2.field.q[-1])
        return out_of_units(plan, p1, p2, (k[0, 0], state.theta[0, 0]))
    sums = _diagonal_fibre if carries_distance(plan) else _sum_fibres
    first, theta = sums(plan, tables, x1, x2, p1.field, p2.field, within)
    return after_readout(plan, tables, first, theta, p1, p2, carry)


def from_either(plan: FibrePlan | PairPlan, carry: Carry) -> Carry:
    """With the distance from -g too, where linear layers and odd functions alone lead to a kink, which reads it."""
    if isinstance(plan, PairPlan) or not isinstance(carry, Distance):
        return carry
    for op in (*plan.field, *(plan.vector if plan.single else ())):
        if isinstance(op, Dual) and not traits_of(op.activation).odd:
            return EitherDistance(carry.scales) if isinstance(op.activation, PiecewiseLinear) else carry
        if not isinstance(op, Affine | Box | Table | Dual | Decouple | Standardise):
            break
    return carry


def out_of_units(plan: FibrePlan | PairPlan, p1: Prepared, p2: Prepared, values: tuple[Any, Any]) -> tuple[Any, Any]:
    """Kernels of the inputs as they are, from those in their units, unless these were left."""
    if p1.unit is None or (isinstance(plan, FibrePlan) and any(map(leaves_units, (*plan.field, *plan.vector)))):
        return values
    return values[0] * p1.unit * p2.unit, values[1] * p1.unit * p2.unit


def aligned(p1: Prepared, p2: Prepared) -> tuple[Prepared, Prepared]:
    """What is known of N1 and of N2 inputs, with batch axes of shape (N1, 1) and (1, N2)."""
    return jax.tree.map(lambda f: f[..., :, None], p1), jax.tree.map(lambda f: f[..., None, :], p2)


def carries_distance(plan: FibrePlan) -> bool:
    """Whether the readout is linear in D and a nonlinearity follows it, so that D rather than K is read out."""
    return plan.single and has_dual(plan.vector)


def after_readout(
    plan: FibrePlan,
    tables: dict[str, Any],
    first: Any,
    theta: Any,
    p1: Prepared,
    p2: Prepared,
    carry: Carry = DISTANCE,
) -> tuple[Any, Any]:
    """(NNGP, NTK) from the readout's K (or D, if `carries_distance`) and Θ in units, by the layers on plain vectors."""
    carry = _after(plan.field, carry.in_units(p1.unit, p2.unit))
    if p1.vector is None or p2.vector is None:
        return out_of_units(plan, p1, p2, _affine(plan.vector, first, theta, carry))
    d = first if plan.single else carry.of_covariance(first, p1.vector.q[0][0], p2.vector.q[0][0])
    geometry = FibreGeometry(vector_levels(plan.vector), jnp.zeros((0,), jnp.int32), tables, carry)
    begin = State(d, theta).map(lambda x: x[None])
    state = execute(plan.vector, geometry, begin, p1.vector, p2.vector, carry)
    k = _after(plan.vector, carry).covariance(state.d, p1.vector.q[-1], p2.vector.q[-1])
    return out_of_units(plan, p1, p2, (k[0], state.theta[0]))


def _after(ops: tuple[Op, ...], carry: Carry) -> Carry:
    """How operations behind these act."""
    for op in ops:
        carry = carry.after(op)
    return carry


def diagonal(plan: FibrePlan | PairPlan, tables: dict[str, Any], x: Any, p: Prepared) -> tuple[Any, Any]:
    """(NNGP, NTK) of each input of x, (positions, N, channels), with itself, each (N,)."""
    x = p.scaled(x)
    if isinstance(plan, PairPlan):
        carry = DISTANCE.in_units(p.unit, p.unit)
        d = jnp.mean((x[:, None] - x[None]) ** 2, axis=-1)
        state = execute(plan.ops, PairGeometry(tables, carry), State(d, jnp.zeros_like(d)), p.field, p.field, carry)
        k = carry.covariance(state.d, p.field.q[-1], p.field.q[-1])
        return out_of_units(plan, p, p, (k[0, 0], state.theta[0, 0]))
    within = from_either(plan, DISTANCE).in_units(p.unit, p.unit)
    k, theta = _sum_fibres(plan, tables, x, x, p.field, p.field, within)
    return own_after_readout(plan, tables, k, theta, p)


def own_after_readout(plan: FibrePlan, tables: dict[str, Any], k: Any, theta: Any, p: Prepared) -> tuple[Any, Any]:
    """`after_readout` of inputs with themselves: distances are zero, and K is the variance."""
    carry = _after(plan.field, DISTANCE.in_units(p.unit, p.unit))
    if p.vector is None:
        return out_of_units(plan, p, p, _affine(plan.vector, k, theta, carry))
    geometry = FibreGeometry(vector_levels(plan.vector), jnp.zeros((0,), jnp.int32), tables, carry)
    begin = State(jnp.zeros_like(theta)[None], theta[None])
    state = execute(plan.vector, geometry, begin, p.vector, p.vector, carry)
    return out_of_units(plan, p, p, (p.vector.q[-1][0], state.theta[0]))


def vector_levels(ops: tuple[Op, ...]) -> Levels:
    """Levels of a program without positions."""
    return still(ops, _VECTOR)


def _affine(ops: tuple[Op, ...], k: Any, theta: Any, carry: Carry) -> tuple[Any, Any]:
    for op in ops:
        assert isinstance(op, Affine)
        before, k = k, op.W_var * k + carry.bias(op)
        gain = k if op.rates is None else op.rates[0] * before + carry.constant(op.rates[1])
        theta = gain + op.W_var * theta
    return k, theta


def _run_fibre(
    plan: FibrePlan, tables: dict[str, Any], label: Any, x1: Any, x2: Any, m1: Moments, m2: Moments, carry: Carry
) -> tuple[FibreGeometry, State]:
    geometry = FibreGeometry(plan.levels, label, tables, carry)
    d = carry.start(x1, geometry.second(0, x2))
    return geometry, execute(plan.field, geometry, State.begin(d), m1, m2, carry)


def _readout(plan: FibrePlan, tables: dict[str, Any], geometry: FibreGeometry, values: Any) -> Any:
    """Σ_p of the values at pairs whose two positions lie in one block, with the pairs' weight."""
    labels = tables[plan.labels.key]
    partner, valid = geometry.partners(plan.levels.levels[-1])
    joined = (labels == labels[partner]) & (labels >= 0) & valid
    joined = joined.reshape((-1,) + (1,) * (values.ndim - 1))
    return sum_in_groups(jnp.where(joined, plan.block_weight * values, 0))


def sum_in_groups(x: Any) -> Any:
    """Sum over the leading axis in two stages, whose rounding grows with the root of its length."""
    n = x.shape[0]
    group = max(1, int(n**0.5))
    rest = n - n % group
    stages = jnp.sum(x[:rest].reshape((n // group, group, *x.shape[1:])), axis=1)
    return jnp.sum(stages, axis=0) + jnp.sum(x[rest:], axis=0)


def _diagonal_fibre(
    plan: FibrePlan, tables: dict[str, Any], x1: Any, x2: Any, m1: Moments, m2: Moments, carry: Carry
) -> tuple[Any, Any]:
    """(D, Θ) after a flattening readout, whose mean over positions is linear in D."""
    geometry, state = _run_fibre(plan, tables, jnp.asarray(plan.fibres.array[0]), x1, x2, m1, m2, carry)
    d, theta = state.map(partial(_readout, plan, tables, geometry))
    return d, theta


def _sum_fibres(
    plan: FibrePlan, tables: dict[str, Any], x1: Any, x2: Any, m1: Moments, m2: Moments, carry: Carry
) -> tuple[Any, Any]:
    """(K, Θ) after the readout, before the dense layers that follow it."""

    def one(label: Any) -> tuple[Any, Any]:
        geometry, state = _run_fibre(plan, tables, label, x1, x2, m1, m2, carry)
        last = len(plan.field)
        k = _after(plan.field, carry).covariance(
            state.d, geometry.first(last, m1.q[-1]), geometry.second(last, m2.q[-1])
        )
        return _readout(plan, tables, geometry, k), _readout(plan, tables, geometry, state.theta)

    if plan.single:
        return one(jnp.asarray(plan.fibres.array[0]))

    def add(sums: tuple[Any, Any, Any, Any], label: Any) -> tuple[tuple[Any, Any, Any, Any], None]:
        k, theta = one(label)
        return (*_compensated(sums[0], sums[1], k), *_compensated(sums[2], sums[3], theta)), None

    zero = jnp.zeros(jnp.broadcast_shapes(x1.shape[1:-1], x2.shape[1:-1]), x1.dtype)
    (k, _, theta, _), _ = lax.scan(jax.checkpoint(add), (zero, zero, zero, zero), tables[plan.fibres.key])
    return k, theta


def _compensated(total: Any, lost: Any, term: Any) -> tuple[Any, Any]:
    """Kahan's summation: a million fibres in float32 would otherwise lose three digits."""
    y = term - lost
    new = total + y
    return new, (new - total) - y
