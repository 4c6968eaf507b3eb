"""Kernels of networks on rotation groups: all pairs of two sets of signals, or a list of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.engines import Choice, engine_name
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import tiles
from equitangents.kernels.rotations.measured import resolve
from equitangents.kernels.rotations.program import RotationProgram
from equitangents.kernels.rotations.resolution import Resolution
from equitangents.kernels.size import check_result


def compute(program: RotationProgram, x1: Any, x2: Any = None, engine: str | None = None) -> Kernels:
    """Kernels between signals x1, (N1, B², C), and x2 (None: x1 with itself, at half the cost), each (N1, N2).

    Raises MemoryLimitError where they cannot fit in memory.
    """
    choice = choose_engine(program, engine)
    dtype = precision.working_dtype(x1, x2)
    check_result(x1, x2, dtype, (x1.size + (0 if x2 is None else x2.size)) * dtype.itemsize)
    found = resolve(program, x1, x2)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            other = x1 if x2 is None else x2
            i, j = np.divmod(np.arange(len(x1) * len(other)), len(other))
            values = tiles.traced(program, found.value, jnp.asarray(x1, dtype), jnp.asarray(other, dtype), i, j)
            nngp, ntk = (v.reshape(len(x1), len(other)) for v in values)
        else:
            a, b = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk = engine_run(choice.engine)(program, found.value, a, b)
        return _result(nngp, ntk, found, choice, x1, x2)


def compute_diagonal(program: RotationProgram, x: Any, engine: str | None = None) -> Kernels:
    """Kernels of each signal with itself, (N,)."""
    return compute_pairs(program, x, x, np.arange(len(x)), np.arange(len(x)), engine)


def compute_pairs(
    program: RotationProgram, x1: Any, x2: Any, first: Any, second: Any, engine: str | None = None
) -> Kernels:
    """Kernels of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
    choice = choose_engine(program, engine)
    dtype = precision.working_dtype(x1, x2)
    found = resolve(program, x1, x2)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            nngp, ntk = tiles.traced(
                program, found.value, jnp.asarray(x1, dtype), jnp.asarray(x2, dtype), first, second
            )
        else:
            nngp, ntk = tiles.listed(program, found.value, np.asarray(x1, dtype), np.asarray(x2, dtype), first, second)
        return _result(nngp, ntk, found, choice, x1, x2)


def choose_engine(program: RotationProgram, engine: str | None) -> Choice:
    """The engine that runs `program`; raises InvalidArgumentError where the one asked for cannot."""
    if engine is not None and engine_name(engine) != "reference":
        raise InvalidArgumentError(f"engine is {engine!r}; networks on rotations run on 'reference' alone")
    return Choice("reference", None)


def engine_run(engine: str) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """(program, resolution, x1, x2 or None) ↦ (NNGP, NTK) of NumPy arrays, by an engine."""
    assert engine == "reference"
    return tiles.blocks


def _result(nngp: Any, ntk: Any, found: Resolution, choice: Choice, *inputs: Any) -> Kernels:
    if any(isinstance(x, jax.Array) for x in inputs):
        nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    notes = tuple(note for note in (found.note, choice.note) if note is not None)
    return Kernels(nngp, ntk, choice.engine, "rotations", notes, found.error, found.value or None)
