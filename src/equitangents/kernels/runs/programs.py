"""Kernels of field programs: an engine is chosen, inputs are prepared for it, and the result says who computed it.

Pairs of inputs of very different norm go where they keep their digits (`by_scale`); memory is checked beforehand.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.kernels import near_axis
from equitangents.kernels.engines import Engine, choose
from equitangents.kernels.engines.reference import run as by_reference
from equitangents.kernels.engines.reference.carry import COVARIANCE
from equitangents.kernels.engines.reference.sizes import tile_sides
from equitangents.kernels.plans.plan import PairPlan, plan
from equitangents.kernels.plans.tables import tables_of
from equitangents.kernels.program import Program
from equitangents.kernels.result import Kernels
from equitangents.kernels.runs import by_scale, traced_scales, wide_norms
from equitangents.kernels.scales import law_of
from equitangents.kernels.size import check_result
from equitangents.kernels.units import with_biases

logger = logging.getLogger("equitangents")


def compute(program: Program, x1: ArrayLike, x2: ArrayLike | None = None, engine: str | None = None) -> Kernels:
    """Kernels of `program` between inputs x1, (N1, *positions, C), and x2 (None: x1 with itself).

    NumPy arrays give NumPy arrays in their own precision. JAX arrays, also traced ones, give JAX arrays, and are
    differentiable. Raises MemoryLimitError where the result cannot fit in memory.
    """
    dtype = precision.working_dtype(x1, x2)
    chosen, note = choose(program, engine, dtype)
    steps = chosen.steps(program)
    form, notes = "fibre", tuple[str, ...]()
    if isinstance(steps, PairPlan):
        form = "pairs"
        notes = (f"all pairs of positions: {steps.why}",)
        logger.debug("kernel over all pairs of positions: %s", steps.why)
    if note is not None:
        notes = (*notes, note)
    check_memory(program, chosen, x1, x2)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            nngp, ntk = _traced(chosen, program, x1, x2, dtype)
        else:
            arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk, told = by_scale.all_pairs(law_of(program), _ways(program, chosen), chosen, *arrays)
            notes = (*notes, *told)
            doubt = _doubt(chosen, program, arrays[0])
            if doubt is not None:
                nngp, ntk, mended = near_axis.mend(doubt, partial(_of_pairs, program, *arrays), *arrays, nngp, ntk)
                if mended:
                    how = "by the reference engine" if doubt.steps is None else "in numbers of 106 bits"
                    notes = (*notes, f"{mended} pairs of nearly parallel or opposite inputs {how}")
        if any(isinstance(x, jax.Array) for x in (x1, x2)):
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    return Kernels(nngp, ntk, engine=chosen.name, form=form, notes=notes)


def _doubt(engine: Engine, program: Program, x: np.ndarray) -> near_axis.Doubt | None:
    """Of which pairs small angles may be lost: a kink reads them without units, and no higher precision is at work."""
    doubt = near_axis.doubt_of(program, engine.leaves_units)
    higher = doubt is not None and engine.computed_in(program, x.shape[-1], x.dtype.name) != x.dtype.name
    return None if higher else doubt


def _of_pairs(
    program: Program, x1: np.ndarray, x2: np.ndarray | None, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (P,), of pairs by their inputs' numbers, by the reference engine in double precision.

    One first input after another, with its second ones filled up to powers of two: few shapes are compiled.
    """
    other = x1 if x2 is None else x2
    nngp, ntk = np.empty(len(first)), np.empty(len(first))
    parts = np.split(np.arange(len(first)), np.flatnonzero(np.diff(first)) + 1)
    with precision.scope(np.float64):
        for part in parts:
            chosen = np.resize(second[part], 1 << (len(part) - 1).bit_length())
            rows = x1[first[part[:1]]].astype(np.float64), other[chosen].astype(np.float64)
            nngp[part], ntk[part] = (values[0, : len(part)] for values in by_reference.kernels(program, *rows))
    return nngp, ntk


def check_memory(program: Program, engine: Engine, x1: Any, x2: Any) -> None:
    """Raise MemoryLimitError where the kernels of x1 and x2 (None: x1 with itself) cannot fit in memory."""
    dtype = precision.working_dtype(x1, x2)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    check_result(x1, x2, dtype, engine.working_bytes(program, x1.shape[-1], n1, n2, dtype.itemsize))


def _ways(program: Program, engine: Engine) -> by_scale.Ways:
    """Kernels of NumPy arrays by an engine, in their own precision, and by the reference engine where it cannot."""
    steps = plan(program)

    def apart_of(x1: np.ndarray, x2: np.ndarray, scales: tuple[float, float] | None) -> Any:
        sides = tile_sides(steps, len(x1), len(x2), x1.dtype.itemsize)
        return wide_norms.kernels(steps, tables_of(steps, program), x1, x2, sides, scales)

    return by_scale.Ways(
        engine=partial(_concrete, engine, program),
        common=lambda x1, x2, factor: _concrete(engine, with_biases(program, factor), x1, x2),
        apart=apart_of,
        compiled=engine.compiles_shapes,
        checked=engine.checks_kernels,
    )


def _concrete(engine: Engine, program: Program, x1: np.ndarray, x2: np.ndarray | None) -> tuple[Any, Any]:
    """Kernels by an engine of inputs that are near to each other in norm."""
    with precision.scope(x1.dtype):
        return engine.kernels(program, x1, x2)


def _traced(engine: Engine, program: Program, x1: Any, x2: Any, dtype: DType) -> Any:
    """Kernels of traced inputs, at any scale that shows only when the program runs."""

    def near(a: Any, b: Any) -> Any:
        if engine.differentiable:
            return engine.traced(program, a, b)
        return _differentiable(engine, program, a, b, dtype)

    def far(a: Any, b: Any) -> Any:
        return by_reference.traced(program, a, a if b is None else b, COVARIANCE)

    inputs = x1.astype(dtype), None if x2 is None else x2.astype(dtype)
    return traced_scales.all_pairs(law_of(program), near, far, *inputs)


def _differentiable(engine: Engine, program: Program, x1: Any, x2: Any, dtype: DType) -> tuple[Any, Any]:
    """Kernels of traced inputs by an engine without derivatives, with those of the reference engine."""

    @jax.custom_jvp
    def run(*inputs: Any) -> tuple[Any, Any]:
        return engine.traced(program, inputs[0], inputs[1] if len(inputs) == 2 else None)

    @run.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        reference = lambda *inputs: by_reference.traced(program, inputs[0], inputs[-1])
        return run(*primals), jax.jvp(reference, primals, tangents)[1]

    return run(*(x.astype(dtype) for x in (x1, x2) if x is not None))


def compute_diagonal(program: Program, x: ArrayLike, engine: str | None = None) -> Kernels:
    """Kernels of each input x, (N, *positions, C), with itself: NNGP and NTK of shape (N,), at the cost of N pairs."""
    if precision.is_traced(x):
        return _traced_diagonal(program, x, engine)
    dtype = precision.working_dtype(x)
    chosen, note = choose(program, engine, dtype)
    form = "pairs" if isinstance(chosen.steps(program), PairPlan) else "fibre"
    with precision.scope(dtype):
        run = partial(_concrete_diagonal, chosen)
        nngp, ntk, told = by_scale.diagonal(
            law_of(program),
            partial(run, program),
            lambda y, factor: run(with_biases(program, factor), y),
            np.asarray(x, dtype),
        )
        if isinstance(x, jax.Array):
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    return Kernels(nngp, ntk, engine=chosen.name, form=form, notes=(*(() if note is None else (note,)), *told))


def _concrete_diagonal(engine: Engine, program: Program, x: np.ndarray) -> tuple[Any, Any]:
    """Kernels of each of some NumPy arrays with itself by an engine, in their precision."""
    with precision.scope(x.dtype):
        return engine.diagonal(program, x)


def _traced_diagonal(program: Program, x: Any, engine: str | None) -> Kernels:
    """Kernels with themselves inside a JAX program, one input after another."""
    run = partial(compute, program, engine=engine)
    return jax.tree.map(lambda k: k[:, 0, 0], jax.lax.map(lambda one: run(one[None]), x))
