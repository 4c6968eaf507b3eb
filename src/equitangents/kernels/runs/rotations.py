"""Kernels of networks on rotation groups: all pairs of two sets of signals, or each with itself.

The resolution is measured in float64, on a few signals.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.kernels import scales
from equitangents.kernels.engines import REFERENCE, Engine, EngineChoice, choose_where, engines
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.plans import has_dual
from equitangents.kernels.program import Program
from equitangents.kernels.result import Kernels, Part, check_result, result
from equitangents.kernels.rotations import (
    LADDER,
    Resolution,
    RotationSections,
    Sphere,
    choose,
    from_several_sides,
    pairs_of,
    rotation_between_nodes,
    rotation_to_node,
    sample,
    sections,
    surrogates,
)
from equitangents.kernels.scales import Values, any_traced, divided, law_of, norms, with_biases, with_derivatives_of


def compute(
    full: Program[Sphere],
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Kernels:
    """`Kernels` between signals x1, (N1, B², C), and x2 (None: x1 with itself, at half the cost), each (N1, N2).

    `own`: of each signal of x1 with itself, each (N,). Raises MemoryLimitError if they cannot fit in memory. There
    are no fields: `part` is None.
    """
    program = sections(full)
    if own:
        x2 = x1
    choice = choice_of(full, engine)
    rules, dtype = rules_of(choice.engine), precision.working_dtype(x1, x2)
    if not own:
        check_result(x1, x2, dtype, (x1.size + (0 if x2 is None else x2.size)) * dtype.itemsize)
    found = find_resolution(program, x1, x2, rules)
    nngp: ArrayLike
    ntk: ArrayLike
    with precision.scope(dtype):
        if any_traced(x1, x2):
            nngp, ntk = _traced(program, found.value, rules, own)(
                *(jnp.asarray(x, dtype) for x in (x1, x2) if x is not None)
            )
            added: list[str] = []
        else:

            def run(carried: RotationSections, a: np.ndarray, b: np.ndarray | None, any_norms: bool = False) -> Pair:
                return rules.kernels(carried, found.value, a, b, own, any_norms)

            backends = scales.Backends(
                engine=lambda a, b: run(program, a, b),
                any_norms=lambda a, b, factor: run(with_biases(program, factor), a, b, any_norms=True),
            )
            arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk, added = scales.all_pairs(law_of(program), backends, *arrays, paired=own)
        facts = {"error_estimate": found.error, "resolution": found.value or None}
        notes = (*(() if found.note is None else (found.note,)), *choice.notes, *added)
        return result((x1, x2), nngp, ntk, engine=choice.engine.name, form="rotations", notes=notes, **facts)


def _traced(program: RotationSections, resolution: int, rules: RotationRules, own: bool) -> scales.Traced:
    """Kernels of traced signals, with the derivatives of the reference engine, which computes with angles."""

    def by(rules: RotationRules, x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        return rules.traced(program, resolution, x1, x2, own)

    def by_angles(x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
        run = lambda a, b: by(rules_of(REFERENCE), a, b)
        return run(x1, x2) if own else scales.traced_pairs(law_of(program), run, x1, x2)

    return by_angles if rules.differentiable else with_derivatives_of(by_angles, lambda *inputs: by(rules, *inputs))


def choice_of(full: Program[Sphere], engine: str | None) -> EngineChoice:
    """The engine that runs the program; raises InvalidArgumentError if a named one cannot."""
    program = sections(full)

    def obstacle(candidate: Engine) -> str | None:
        return "it has no rule for rotations" if candidate.rotations is None else candidate.rotations.obstacle(program)

    return choose_where(obstacle, engine)


def rules_of(engine: Engine) -> RotationRules:
    """`RotationRules` of the chosen engine."""
    assert engine.rotations is not None
    return engine.rotations


def find_resolution(program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, rules: RotationRules) -> Resolution:
    """The resolution for these signals; for traced ones it is measured on random signals, with a note.

    The compiled engine measures it if it can, since JAX compiles each resolution; else `rules` do.
    """
    if not program.is_sampled:
        return Resolution(0, None, None)
    traced = [x for x in (x1, x2) if precision.is_traced(x)]
    if traced and program.accuracy.resolution is not None:
        return Resolution(program.accuracy.resolution, None, "as set; the error is not measured on traced signals")
    least = 64 * float(np.finfo(precision.working_dtype(x1, x2)).eps)
    if traced:
        return _of_surrogates(program, x1.shape[-1], least, rules)
    few = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    return _measured(program, _comparable(program, few), least, rules)


def _comparable(program: RotationSections, x: np.ndarray) -> np.ndarray:
    """Signals rescaled so that distances resolve their products: to unit scale if the kernel is homogeneous.

    Otherwise the smallest are raised to 1e-8 of the largest, if networks are linear in them, or insensitive to them.
    """
    logarithms = norms(x)
    if not np.isfinite(logarithms).any():
        return x
    law = law_of(program)
    exponents = np.floor(np.where(np.isfinite(logarithms), logarithms, 0)).astype(np.int64)
    if law.homogeneous and not law.biased:
        return divided(x, exponents, np.float64)
    return divided(x, np.minimum(exponents - (exponents[np.isfinite(logarithms)].max() - 26), 0), np.float64)


@lru_cache(maxsize=64)
def _of_surrogates(program: RotationSections, channels: int, least: float, rules: RotationRules) -> Resolution:
    found = _measured(program, surrogates(program.bandlimit, channels), least, rules)
    return found._replace(note="resolution and error are those of random signals of unit variance")


def _measured(program: RotationSections, x: np.ndarray, least: float, rules: RotationRules) -> Resolution:
    ladder = tuple(r for r in LADDER if r >= (program.bandlimit + 1) // 2)
    behind = has_dual(program.vector)  # nonlinearities after the readout may magnify errors
    short = program if behind else replace(program, vector=())
    able = (e.rotations for e in engines() if e.rotations is not None and e.why_unavailable() is None)
    measuring = next((found for found in able if found.obstacle(short) is None), rules)
    x = from_several_sides(x)

    def values(r: int) -> Pair:
        # rotations do not change the kernel, but its error
        rotations = (rotation_to_node(r), rotation_between_nodes(r)) if behind else (rotation_to_node(r),)
        a, b = pairs_of(x, rotations)
        return measuring.kernels(short, r, a, b, paired=True)

    with precision.scope(np.float64), jax.ensure_compile_time_eval():  # also while something else is traced
        return choose(program.accuracy, ladder, values, len(x), least)
