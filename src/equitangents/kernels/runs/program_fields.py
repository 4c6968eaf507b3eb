"""Kernel fields of field programs: an engine is chosen, memory is checked, and the result says who computed it.

As in `kernels.dispatch.compute`, pairs of inputs of very different norm go where they keep their digits.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.kernels.engines import Engine, choose_where
from equitangents.kernels.engines.reference import fields as by_reference
from equitangents.kernels.engines.reference.carry import COVARIANCE, DISTANCE
from equitangents.kernels.engines.registry import REFERENCE
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.plan import FieldPlan, field_plan
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.fields.size import check_field
from equitangents.kernels.plans.plan import PairPlan
from equitangents.kernels.program import Program
from equitangents.kernels.runs import by_scale, traced_scales
from equitangents.kernels.runs.wide_norm_fields import field_kernels as field_kernels_apart
from equitangents.kernels.scales import law_of
from equitangents.kernels.units import with_biases

logger = logging.getLogger("equitangents")


def compute_field(program: Program, x1: Any, x2: Any, part: Part, engine: str | None = None) -> KernelField:
    """The kernel field of `program` between x1, (N1, *positions, C), and x2 (None: x1 with itself), at `part`."""
    dtype = precision.working_dtype(x1, x2)
    if any(precision.is_traced(x) for x in (x1, x2)):
        return _traced(program, x1, x2, part, dtype)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    check_field(part, n1, n2, dtype, 0)
    chosen, notes = choose_for_field(program, part, engine, dtype)
    working = chosen.field_working_bytes(program, part, x1.shape[-1], n1, n2, dtype.itemsize)
    as_jax = any(isinstance(x, jax.Array) for x in (x1, x2))
    memory = check_field(part, n1, n2, dtype, working, as_jax)
    layout = part.layout
    if x2 is None and not part.mirrors:
        x2 = x1
    with precision.scope(dtype):
        arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
        ways = _ways(program, chosen, part)
        nngp, ntk, told = by_scale.all_pairs(law_of(program), ways, chosen, *arrays, layout)
        nngp, ntk = (np.ascontiguousarray(layout.public(values)) for values in (nngp, ntk))
        if as_jax:
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    form = _form(chosen.field_steps(program, part))
    return KernelField(
        nngp, ntk, positions=part.kind, engine=chosen.name, form=form, notes=(*notes, *told), memory=memory
    )


def compute_field_diagonal(program: Program, x: Any, part: Part, engine: str | None = None) -> KernelField:
    """The kernel field of each input x, (N, *positions, C), with itself: (N, *part.layout.tail)."""
    dtype = precision.working_dtype(x)
    if precision.is_traced(x):
        with precision.scope(dtype):
            nngp, ntk = by_reference.traced_field_diagonal(field_plan(program, part), program, x.astype(dtype))
        return KernelField(nngp, ntk, positions=part.kind, form=_form(field_plan(program, part)))
    check_field(part, len(x), 1, dtype, 0)
    chosen, notes = choose_for_field(program, part, engine, dtype)
    working = chosen.field_working_bytes(program, part, x.shape[-1], len(x), 1, dtype.itemsize)
    memory = check_field(part, len(x), 1, dtype, working, isinstance(x, jax.Array))
    with precision.scope(dtype):
        nngp, ntk, told = by_scale.diagonal(
            law_of(program),
            lambda y: _own(chosen, program, part, y),
            lambda y, factor: _own(chosen, with_biases(program, factor), part, y),
            np.asarray(x, dtype),
            part.layout,
        )
        if isinstance(x, jax.Array):
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    form = _form(chosen.field_steps(program, part))
    return KernelField(
        nngp, ntk, positions=part.kind, engine=chosen.name, form=form, notes=(*notes, *told), memory=memory
    )


def choose_for_field(program: Program, part: Part, engine: str | None, dtype: DType) -> tuple[Engine, tuple[str, ...]]:
    """(the engine for a part of a field, what a reader should know of the choice)."""
    chosen, note = choose_where(lambda e: e.field_obstacle(program, part, dtype), engine)
    steps = chosen.field_steps(program, part).steps
    notes = (f"all pairs of positions: {steps.why}",) if isinstance(steps, PairPlan) else ()
    if notes:
        logger.debug("kernel field over %s", notes[0])
    return chosen, notes if note is None else (*notes, note)


def _form(plan: FieldPlan) -> str:
    return "pairs" if isinstance(plan.steps, PairPlan) else "fibre"


def _ways(program: Program, engine: Engine, part: Part) -> by_scale.Ways:
    plan = field_plan(program, part)
    return by_scale.Ways(
        engine=partial(_concrete, engine, program, part),
        common=lambda x1, x2, factor: _concrete(engine, with_biases(program, factor), part, x1, x2),
        apart=lambda x1, x2, scales: field_kernels_apart(plan, program, x1, x2, scales),
        compiled=engine.compiles_shapes,
        checked=engine.checks_fields,
    )


def _concrete(engine: Engine, program: Program, part: Part, x1: np.ndarray, x2: np.ndarray | None) -> Any:
    with precision.scope(x1.dtype):
        return engine.field_kernels(program, part, x1, x2)


def _own(engine: Engine, program: Program, part: Part, x: np.ndarray) -> Any:
    with precision.scope(x.dtype):
        return engine.field_diagonal(program, part, x)


def _traced(program: Program, x1: Any, x2: Any, part: Part, dtype: DType) -> KernelField:
    """Fields of traced inputs, which are the reference engine's, so that they have derivatives."""
    plan = field_plan(program, part)

    def run(carry: Any, a: Any, b: Any) -> Any:
        return by_reference.traced_fields(plan, program, a, a if b is None else b, carry)

    with precision.scope(dtype):
        inputs = x1.astype(dtype), None if x2 is None else x2.astype(dtype)
        near, far = partial(run, DISTANCE), partial(run, COVARIANCE)
        nngp, ntk = traced_scales.all_pairs(law_of(program), near, far, *inputs)
    layout = part.layout
    return KernelField(
        layout.public(nngp), layout.public(ntk), positions=part.kind, engine=REFERENCE.name, form=_form(plan)
    )
