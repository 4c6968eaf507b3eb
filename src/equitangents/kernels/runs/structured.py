"""Kernels of structured programs: choose an engine, prepare inputs, handle norms, check memory.

All kernels except traced ones are computed in double precision. The reference engine computes kernel fields, traced
kernels and pairs of inputs of very different norm.
"""

from __future__ import annotations

import logging

import jax
import numpy as np

from equitangents import precision
from equitangents.kernels.engines import REFERENCE, Engine, EngineChoice, choose_where
from equitangents.kernels.engines.protocol import StructuredRules
from equitangents.kernels.engines.reference import structured as by_reference
from equitangents.kernels.program import why_structured
from equitangents.kernels.result import KernelField, Kernels, Part, check_field, check_result, result_at
from equitangents.kernels.scales import any_traced, cast, norms
from equitangents.kernels.structured import StructuredProgram, batch_of, check_alike
from equitangents.structured import Inputs

logger = logging.getLogger("equitangents")

_FAR = 10.0  # of log2 of norms, beyond which compiled engines, which carry the distance, lose the covariance


def compute(
    program: StructuredProgram,
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Kernels | KernelField:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); arrays, Masked or Graphs.

    With `part` the `KernelField` at these pairs of positions, by the reference engine. `own`: of each input of x1 with
    itself, each (N,) or (N, *part.tail).
    """
    inputs = (x1,) if x2 is None else (x1, x2)
    traced, dtype = any_traced(*inputs), precision.working_dtype(*inputs)
    chosen, notes = choice_of(program, engine, part, traced)
    batches = [batch_of(program, x) for x in inputs]
    one, second, rules = batches[0], batches[-1], rules_of(chosen)
    other, n2 = None if len(batches) == 1 else second, 1 if own else len(second.x)
    check_alike(program, one, second)
    if traced:
        with precision.scope(dtype):
            nngp, ntk = by_reference.traced(program, (one,) if own else (one, second), part, dtype)
    else:
        working = rules.working_bytes(program, one.x.shape[-1], len(one.x), n2, np.dtype(dtype).itemsize)
        if part is not None:
            check_field(part, len(one.x), n2, dtype, working)
            if own:
                nngp, ntk = by_reference.own(program, one, part)
            else:
                nngp, ntk = by_reference.tiled(program, one, other, part, dtype)
        elif own:
            nngp, ntk = rules.diagonal(program, one)
        else:
            check_result(one.x, None if other is None else other.x, dtype, working)
            nngp, ntk = rules.kernels(program, one, other)
            far = far_apart(*(norms(np.asarray(b.x, np.float64)) for b in (one, second)))
            if chosen is not REFERENCE and far.any():
                exact = by_reference.tiled(program, one, other, None, np.float64, far)
                nngp, ntk = (np.where(far, e, v) for e, v in zip(exact, (nngp, ntk), strict=True))
                count = int(far.sum()) // (2 if other is None else 1)
                notes = (*notes, f"{count} pairs of inputs of very different norm by the reference engine")
                logger.info("%s", notes[-1])
        nngp, ntk = cast(dtype, nngp, ntk, (one.x, second.x))
    facts = {"engine": chosen.name, "form": "pairs", "notes": notes}
    return result_at(jax.tree.leaves(inputs), nngp, ntk, part, between=not own, **facts)


def rules_of(engine: Engine) -> StructuredRules:
    """`StructuredRules` of the chosen engine."""
    assert engine.structured is not None
    return engine.structured


def choice_of(
    program: StructuredProgram, engine: str | None, part: Part | None = None, traced: bool = False
) -> EngineChoice:
    """The engine that runs the program, and notes about the choice for the result.

    The reference engine runs kernel fields and traced kernels.
    """
    along = f"by pair offset only, and this network runs over all pairs of positions: {why_structured(program.ops)}"

    def obstacle(candidate: Engine) -> str | None:
        if candidate is REFERENCE:
            return None
        if part is not None:
            return f"it has kernel fields {along}"
        if candidate.structured is None:
            return f"it runs {along}"
        return f"inside JAX programs it runs {along}" if traced else candidate.structured.obstacle(program)

    choice = choose_where(obstacle, engine)
    return EngineChoice(choice.engine, choice.notes or (f"all pairs of positions: {why_structured(program.ops)}",))


def far_apart(logs1: np.ndarray, logs2: np.ndarray) -> np.ndarray:
    """Mask of the pairs of inputs whose norms differ so much that the distance does not resolve their covariance."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(logs1[:, None] - logs2)
    return np.isfinite(gap) & (gap > _FAR)
