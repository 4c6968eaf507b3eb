"""Kernels of field programs, or their kernel fields: an engine is chosen, memory is checked, inputs are prepared.

Inputs of very different norm are computed in a way that keeps their digits (`scaling`).
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.kernels import nearly_parallel
from equitangents.kernels.engines import Choice, Engine, choose, choose_where
from equitangents.kernels.engines.protocol import Steps
from equitangents.kernels.engines.select import REFERENCE
from equitangents.kernels.fields import MATRIX, Layout, Part, check_field, check_result
from equitangents.kernels.program import Program
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.runs import scaling
from equitangents.kernels.runs.scaling import Values, result_at, with_derivatives_of
from equitangents.kernels.scales import Law, law_of, with_biases

logger = logging.getLogger("equitangents")

_LITTLE = 1 << 20  # bytes that any process has which runs this: to ask the system takes as long as so small a kernel


def compute(
    program: Program, x1: ArrayLike, x2: ArrayLike | None = None, engine: str | None = None, part: Part | None = None
) -> Kernels | KernelField:
    """`Kernels` of `program` between inputs x1, (N1, *positions, C), and x2 (None: x1 with itself).

    With `part` the `KernelField` at these pairs of positions. NumPy arrays give NumPy arrays in their own precision.
    JAX arrays, also traced ones, give JAX arrays, and are differentiable. Raises MemoryLimitError where the result
    cannot fit in memory.
    """
    dtype = precision.working_dtype(x1, x2)
    traced = precision.is_traced(x1) or precision.is_traced(x2)
    if part is not None and not traced:
        check_field(part, len(x1), len(x1 if x2 is None else x2), dtype, 0)
    # Fields of traced inputs are the reference engine's, so that they have derivatives.
    choice = Choice(REFERENCE) if traced and part is not None else _choice(program, engine, dtype, part)
    chosen = choice.engine
    steps, law, backends, layout, doubt = _prepared(program, chosen, x1.shape[-1], dtype, part)
    notes = notes_of(choice, steps, part)
    memory = 0 if traced and part is not None else check_memory(program, chosen, x1, x2, dtype, part)
    if x2 is None and part is not None and not part.mirrors:
        x2 = x1
    nngp: ArrayLike
    ntk: ArrayLike
    with precision.scope(dtype):
        if traced:
            nngp, ntk = _traced(chosen, program, x1, x2, dtype, part)
        else:
            arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk, added = scaling.all_pairs(law, backends, *arrays, layout)
            if added:
                notes = (*notes, *added)
            if doubt is not None:
                nngp, ntk, mended = nearly_parallel.mend(
                    doubt, partial(_of_pairs, program, chosen, doubt, *arrays), *arrays, nngp, ntk
                )
                if mended:
                    notes = (*notes, f"{mended} pairs of nearly parallel or opposite inputs in double precision")
        facts = {"engine": chosen.name, "form": steps.form, "notes": notes}
        return result_at((x1, x2), nngp, ntk, part, memory, between=True, **facts)


def compute_diagonal(
    program: Program, x: ArrayLike, engine: str | None = None, part: Part | None = None
) -> Kernels | KernelField:
    """Kernels of each input x, (N, *positions, C), with itself: NNGP and NTK of shape (N,), at the cost of N pairs.

    With `part` their field, (N, *part.layout.tail).
    """
    dtype = precision.working_dtype(x)
    if precision.is_traced(x):
        if part is None:
            # one input after another
            run = partial(compute, program, engine=engine)
            return jax.tree.map(lambda k: k[:, 0, 0], jax.lax.map(lambda one: run(one[None]), x))
        with precision.scope(dtype):
            nngp, ntk = REFERENCE.traced_diagonal(program, x.astype(dtype), part)
        return result_at((x,), nngp, ntk, part, 0, form=_steps(program, REFERENCE, part).form)
    memory = 0 if part is None else check_field(part, len(x), 1, dtype, 0)
    choice, how = choice_of(program, engine, dtype, part)
    chosen = choice.engine
    if part is not None:
        working = chosen.working_bytes(program, x.shape[-1], len(x), 1, dtype.itemsize, part)
        memory = check_field(part, len(x), 1, dtype, working, isinstance(x, jax.Array))
    with precision.scope(dtype):
        leaves_out = part is None and chosen.leaves_out(program)
        backends = scaling.Backends(
            engine=lambda y, _: _own(chosen, part, program, y),
            any_norms=lambda y, _, factor: _own(chosen, part, with_biases(program, factor), y),
            by_reference=False,
            beyond=partial(REFERENCE.listed, program) if leaves_out else None,
        )
        own, layout = np.arange(len(x)), MATRIX if part is None else part.layout
        nngp, ntk, added = scaling.all_pairs(
            law_of(program), backends, np.asarray(x, dtype), None, layout, listed=(own, own)
        )
        first = choice.notes if part is None else notes_of(choice, how, part)
        return result_at((x,), nngp, ntk, part, memory, engine=chosen.name, form=how.form, notes=(*first, *added))


def engine_for(program: Program, dtype: DType) -> str:
    """The name of the engine that computes kernels of inputs of `dtype`."""
    return choose(program, None, dtype).engine.name


def choice_of(program: Program, engine: str | None, dtype: DType, part: Part | None = None) -> tuple[Choice, Steps]:
    """The engine for `program`, or for a part of its field, and how it runs that."""
    choice = _choice(program, engine, dtype, part)
    return choice, _steps(program, choice.engine, part)


def _choice(program: Program, engine: str | None, dtype: DType, part: Part | None) -> Choice:
    if part is None:
        return choose(program, engine, dtype)

    def obstacle(candidate: Engine) -> str | None:
        return candidate.obstacle(program, dtype, part) if candidate.has_fields else "it has no kernel fields"

    return choose_where(obstacle, engine)


def _steps(program: Program, engine: Engine, part: Part | None) -> Steps:
    return engine.steps(program) if part is None else engine.field_steps(program, part).steps


def notes_of(choice: Choice, steps: Steps, part: Part | None = None) -> tuple[str, ...]:
    """Notes on the choice for the result."""
    for why in steps.notes:
        logger.debug("kernel %sover %s", "" if part is None else "field ", why)
    return (*steps.notes, *choice.notes)


def check_memory(
    program: Program, engine: Engine, x1: ArrayLike, x2: ArrayLike | None, dtype: np.dtype, part: Part | None = None
) -> int:
    """Bytes of a run of a kernel field, 0 for kernels; raises MemoryLimitError if they do not fit."""
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    sizes = x1.shape[-1], n1, n2, dtype.itemsize
    if part is None:
        working = engine.working_bytes(program, *sizes)
        if working + 4 * n1 * n2 * dtype.itemsize > _LITTLE:
            check_result(x1, x2, dtype, working)
        return 0
    working = engine.working_bytes(program, *sizes, part)
    return check_field(part, n1, n2, dtype, working, any(isinstance(x, jax.Array) for x in (x1, x2)))


class _Prepared(NamedTuple):
    """What the calls of a program by an engine have in common, whatever their inputs and the state of the process."""

    steps: Steps
    law: Law
    backends: scaling.Backends
    layout: Layout
    doubt: bool | None


@lru_cache(maxsize=256)
def _prepared(program: Program, engine: Engine, channels: int, dtype: np.dtype, part: Part | None) -> _Prepared:
    return _Prepared(
        steps=_steps(program, engine, part),
        law=law_of(program),
        backends=_backends(program, engine, part),
        layout=MATRIX if part is None else part.layout,
        doubt=_doubt(engine, program, channels, dtype) if part is None else None,
    )


def _doubt(engine: Engine, program: Program, channels: int, dtype: DType) -> bool | None:
    """`nearly_parallel.parallel_too`, of an engine that may lose small angles, and computes at no higher precision."""
    doubt = None if engine.carries_angles else nearly_parallel.parallel_too(program)
    name = np.dtype(dtype).name
    return None if doubt is None or engine.computed_in(program, channels, name) != name else doubt


def _of_pairs(
    program: Program,
    engine: Engine,
    parallel: bool,
    x1: np.ndarray,
    x2: np.ndarray | None,
    first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (P,), of pairs by their inputs' numbers, in double precision: those of single precision by the same
    engine, where it keeps their angle so."""
    a, b = x1[first].astype(np.float64), (x1 if x2 is None else x2)[second].astype(np.float64)
    nngp, ntk = np.full(len(a), np.nan), np.full(len(a), np.nan)
    left = np.ones(len(a), bool)
    with precision.scope(np.float64):
        if x1.dtype == np.float32 and engine.obstacle(program, np.float64) is None:
            left = nearly_parallel.in_doubt_in_double(a, b, parallel)
            backends = _prepared(program, engine, x1.shape[-1], np.dtype(np.float64), None).backends
            for i in np.unique(first[~left]):
                here = np.flatnonzero((first == i) & ~left)
                *values, _ = scaling.all_pairs(law_of(program), backends, a[here[:1]], b[here])
                nngp[here], ntk[here] = (of_pairs[0] for of_pairs in values)
        nngp[left], ntk[left] = REFERENCE.listed(program, a[left], b[left])
    return nngp, ntk


def _backends(program: Program, engine: Engine, part: Part | None) -> scaling.Backends:
    """Kernels of NumPy arrays by an engine, in their own precision, and by the reference engine where it cannot."""
    leaves_out = part is None and engine.leaves_out(program)
    able = engine if engine.any_norms else REFERENCE
    return scaling.Backends(
        engine=partial(engine.kernels, program) if part is None else partial(engine.kernels, program, part=part),
        any_norms=lambda x1, x2, factor: able.kernels(
            program if factor == 1 else with_biases(program, factor), x1, x2, part, any_norms=True
        ),
        by_reference=able is not engine,
        checked=engine.checks_kernels and not leaves_out,
        beyond=partial(REFERENCE.listed, program) if leaves_out else None,
    )


def _own(engine: Engine, part: Part | None, program: Program, x: np.ndarray) -> scaling.Pair:
    """Kernels of each of some NumPy arrays with itself by an engine, in their precision."""
    with precision.scope(x.dtype):
        return engine.diagonal(program, x) if part is None else engine.diagonal(program, x, part)


def _traced(
    engine: Engine, program: Program, x1: ArrayLike, x2: ArrayLike | None, dtype: DType, part: Part | None
) -> Values:
    """Kernels of traced inputs, or their field, at any scale that shows only when the program runs."""

    def by_angles(x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        run = lambda a, b: REFERENCE.traced(program, a, b, part)
        return scaling.traced_pairs(law_of(program), run, x1, x2)

    def compiled(x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        found = engine.traced(program, x1, x2)
        return scaling.where_missing(found, lambda: by_angles(x1, x2)) if engine.leaves_out(program) else found

    run = by_angles if engine.differentiable else with_derivatives_of(by_angles, compiled)
    return run(*(x.astype(dtype) for x in (x1, x2) if x is not None))
