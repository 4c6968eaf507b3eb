"""Kernels of networks on rotation groups: all pairs of two sets of signals, or a list of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import overload

import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import NetworkError
from equitangents.kernels.engines import REFERENCE, Choice, Engine, choose_where
from equitangents.kernels.engines.protocol import RotationRules
from equitangents.kernels.engines.reference.rotations import tiling
from equitangents.kernels.fields import Part, check_result
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.rotations.program import RotationSections
from equitangents.kernels.rotations.sampling import Resolution
from equitangents.kernels.runs import scaling
from equitangents.kernels.runs.scaling import Values, any_traced, result, with_derivatives_of
from equitangents.kernels.scales import law_of, with_biases
from equitangents.sphere import rotate


@overload
def compute(
    program: RotationSections, x1: ArrayLike, x2: ArrayLike | None = None, engine: str | None = None, part: None = None
) -> Kernels: ...


@overload
def compute(
    program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, engine: str | None, part: Part | None
) -> Kernels | KernelField: ...


def compute(
    program: RotationSections,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    engine: str | None = None,
    part: Part | None = None,
) -> Kernels | KernelField:
    """`Kernels` between signals x1, (N1, B², C), and x2 (None: x1 with itself, at half the cost), each (N1, N2).

    With `part`, of a program that ends in Flatten, the `KernelField` at these pairs of rotations before it. Raises
    MemoryLimitError where they cannot fit in memory.
    """
    if part is not None:
        return _field(program, x1, x2, engine, part)
    choice = choose_engine(program, engine)
    rules = rules_of(choice.engine)
    dtype = precision.working_dtype(x1, x2)
    check_result(x1, x2, dtype, (x1.size + (0 if x2 is None else x2.size)) * dtype.itemsize)
    found = find_resolution(program, x1, x2, rules)
    nngp: ArrayLike
    ntk: ArrayLike
    with precision.scope(dtype):
        if any_traced(x1, x2):
            inputs = tuple(jnp.asarray(x, dtype) for x in (x1, x2) if x is not None)
            run: Callable[..., Values] = partial(rules.traced, program, found.value)
            by_angles: Callable[..., Values] = partial(_by_angles, program, found.value)
            run = by_angles if rules.differentiable else with_derivatives_of(by_angles, run)
            nngp, ntk = run(*inputs)
            notes: list[str] = []
        else:
            a, b = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            backends = _backends(program, found.value, choice.engine)
            nngp, ntk, notes = scaling.all_pairs(law_of(program), backends, a, b)
        return _result(nngp, ntk, found, choice, notes, x1, x2)


def _backends(program: RotationSections, resolution: int, engine: Engine) -> scaling.Backends:
    """Kernels of NumPy arrays by an engine."""
    run = rules_of(engine).kernels
    return scaling.Backends(
        engine=partial(run, program, resolution),
        any_norms=lambda x1, x2, factor: run(with_biases(program, factor), resolution, x1, x2, any_norms=True),
        by_reference=False,
    )


def _by_angles(program: RotationSections, resolution: int, x1: ArrayLike, x2: ArrayLike | None = None) -> Values:
    """Kernels of traced signals by the reference engine."""
    run = lambda a, b: rules_of(REFERENCE).traced(program, resolution, a, b)
    return scaling.traced_pairs(law_of(program), run, x1, x2)


def _field(
    program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, engine: str | None, part: Part
) -> KernelField:
    """N(f)(R) = N(ρ(R⁻¹)f)(1): the kernel between R and R' is that between the turned signals at 1.

    Behind a full window it depends on the relative rotation alone, and the network that ends in Flatten has it.
    """
    if program.sphere and not program.sphere[-1].is_total:
        raise NetworkError(
            "the kernel between rotations is there for networks with at least one full window, after which it depends "
            "on the relative rotation alone"
        )
    turns = np.asarray(program.group.matrices, np.float64)
    found = compute(program, _turned_back(x1, turns), None if x2 is None else _turned_back(x2, turns), engine)
    n1, n2, count = len(x1), len(x1 if x2 is None else x2), len(turns)
    first, second = part.positions()

    def at(values: ArrayLike) -> ArrayLike:
        field = values.reshape(n1, count, n2, count)
        return field if part.kind == "all" else field[:, first, :, second].transpose(1, 2, 0)  # from (M, N1, N2)

    memory, nngp, ntk = 2 * found.nngp.size * found.nngp.dtype.itemsize, at(found.nngp), at(found.ntk)
    return KernelField(
        nngp, ntk, positions=part.kind, engine=found.engine, form="rotations", notes=found.notes, memory=memory
    )


def _turned_back(x: ArrayLike, turns: np.ndarray) -> ArrayLike:
    """ρ(R⁻¹) f for every signal and rotation, (N·rotations, B², C)."""
    moved = rotate(x, turns.swapaxes(1, 2).astype(x.dtype))
    return moved.swapaxes(0, 1).reshape((-1, *x.shape[1:]))


def compute_diagonal(
    program: RotationSections, x: ArrayLike, engine: str | None = None, part: Part | None = None
) -> Kernels | KernelField:
    """Kernels of each signal with itself, (N,), or their field, one signal after another."""
    if part is not None:
        each = [_field(program, x[i : i + 1], None, engine, part) for i in range(len(x))]
        join = jnp.concatenate if any_traced(x) else np.concatenate
        nngp, ntk = (
            join([v[:, :, 0] if part.kind == "all" else v[:, 0] for v in values])
            for values in zip(*((k.nngp, k.ntk) for k in each), strict=True)
        )
        return replace(each[0], nngp=nngp, ntk=ntk, memory=sum(k.memory for k in each))
    return compute_pairs(program, x, x, np.arange(len(x)), np.arange(len(x)), engine)


def compute_pairs(
    program: RotationSections,
    x1: ArrayLike,
    x2: ArrayLike,
    first: np.ndarray,
    second: np.ndarray,
    engine: str | None = None,
) -> Kernels:
    """Kernels of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
    choice = choose_engine(program, engine)
    rules = rules_of(choice.engine)
    dtype = precision.working_dtype(x1, x2)
    found = find_resolution(program, x1, x2, rules)
    nngp: ArrayLike
    ntk: ArrayLike
    with precision.scope(dtype):
        if any_traced(x1, x2):
            notes: list[str] = []
            run: Callable[..., Values] = lambda a, b: rules.traced_listed(program, found.value, a, b, first, second)
            if not rules.differentiable:
                slow = lambda a, b: rules_of(REFERENCE).traced_listed(program, found.value, a, b, first, second)
                run = with_derivatives_of(slow, run)
            nngp, ntk = run(jnp.asarray(x1, dtype), jnp.asarray(x2, dtype))
        else:
            indices = np.asarray(first), np.asarray(second)
            of_pairs = lambda carried, a, b, **how: rules.listed(carried, found.value, a, b, *indices, **how)
            backends = scaling.Backends(
                engine=partial(of_pairs, program),
                any_norms=lambda a, b, factor: of_pairs(with_biases(program, factor), a, b, any_norms=True),
                by_reference=False,
            )
            arrays = np.asarray(x1, dtype), np.asarray(x2, dtype)
            nngp, ntk, notes = scaling.all_pairs(law_of(program), backends, *arrays, listed=indices)
        return _result(nngp, ntk, found, choice, notes, x1, x2)


def choose_engine(program: RotationSections, engine: str | None) -> Choice:
    """The engine that runs `program`; raises InvalidArgumentError if a named one cannot."""

    def obstacle(candidate: Engine) -> str | None:
        return "it has no rule for rotations" if candidate.rotations is None else candidate.rotations.obstacle(program)

    return choose_where(obstacle, engine)


def rules_of(engine: Engine) -> RotationRules:
    """`RotationRules` of the chosen engine."""
    assert engine.rotations is not None
    return engine.rotations


def find_resolution(program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, rules: RotationRules) -> Resolution:
    """The resolution for these signals, measured by the engine that computes their kernels."""
    return tiling.resolve(program, x1, x2, rules.sample_values)


def _result(
    nngp: ArrayLike, ntk: ArrayLike, found: Resolution, choice: Choice, added: list[str], *inputs: ArrayLike | None
) -> Kernels:
    facts = {"error_estimate": found.error, "resolution": found.value or None}
    notes = (*(() if found.note is None else (found.note,)), *choice.notes, *added)
    return result(inputs, nngp, ntk, None, 0, engine=choice.engine.name, form="rotations", notes=notes, **facts)
