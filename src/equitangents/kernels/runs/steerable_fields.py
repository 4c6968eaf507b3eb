"""Kernel fields of steerable programs that end on points: between components at points, in double precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.fields.size import check_field, field_bytes
from equitangents.kernels.runs.steerable import (
    block,
    cast_to,
    every_pair,
    known_variances,
    notes_of,
    of_pairs,
    own_fields,
    traced_blocks,
    transposed,
    typed,
    working_bytes,
)
from equitangents.kernels.steerable.program import SteerableProgram


def compute_field(
    program: SteerableProgram, x1: ArrayLike, x2: ArrayLike | None, part: Part, engine: str | None = None
) -> KernelField:
    """The field between x1 and x2 (None: x1 with itself) at a part of the pairs of components."""
    notes, dtype = notes_of(engine), precision.working_dtype(x1, x2)
    if x2 is None and not part.mirrors:
        x2 = x1
    inputs = (x1,) if x2 is None else (x1, x2)
    if _any_traced(inputs):
        with precision.scope(dtype):
            values = traced_blocks(program, [typed(x, dtype) for x in inputs])
            found = tuple(part.layout.public(_picked(part, v)) for v in values)
        return _result(inputs, found, part, notes, 0)
    n1, n2 = len(inputs[0]), len(inputs[-1])
    memory = _checked(program, part, inputs[0], n1, n2, dtype)
    with precision.scope(np.float64):
        sides = [typed(x, np.float64) for x in inputs]
        known = [known_variances(program, *side) for side in sides]
        first, second = np.triu_indices(n1) if x2 is None else every_pair(n1, n2)
        ends = (sides[0], sides[-1]), (known[0], known[-1])
        blocks = of_pairs(program, *ends, first, second, lambda b: _picked(part, b))
    values = np.empty((2, n1, n2, *part.layout.tail))
    values[:, first, second] = blocks
    if x2 is None:
        rank = 5 if part.layout.crossed else 3
        values[:, second, first] = transposed(blocks, rank)
        each = np.arange(n1)
        own = values[:, each, each]
        values[:, each, each] = (own + transposed(own, rank)) / 2
    nngp, ntk = cast_to(values, dtype, inputs)
    return _result(inputs, (part.layout.public(nngp), part.layout.public(ntk)), part, notes, memory)


def compute_field_diagonal(
    program: SteerableProgram, x: ArrayLike, part: Part, engine: str | None = None
) -> KernelField:
    """The field of each input with itself, (N, *tail)."""
    notes, dtype = notes_of(engine), precision.working_dtype(x)
    if _any_traced((x,)):
        with precision.scope(dtype):
            values = jax.vmap(lambda a, m: block(program, own_fields(program, a, m)[1]), 0, 1)(*typed(x, dtype))
        return _result((x,), tuple(_picked(part, v) for v in values), part, notes, 0)
    memory = _checked(program, part, x, len(x), 1, dtype)
    with precision.scope(np.float64):
        side = typed(x, np.float64)
        each, known = np.arange(len(side[0])), known_variances(program, *side)
        found = of_pairs(program, (side, side), (known, known), each, each, lambda b: _picked(part, b))
    return _result((x,), tuple(cast_to(found, dtype, (x,))), part, notes, memory)


def _checked(program: SteerableProgram, part: Part, x: ArrayLike, n1: int, n2: int, dtype: Any) -> int:
    """How many bytes the field takes; raises MemoryLimitError where that is more than there is."""
    return check_field(part, n1, n2, dtype, working_bytes(program, x.shape[1]) + 2 * field_bytes(part, n1, n2, 8), True)


def _any_traced(inputs: tuple[Any, ...]) -> bool:
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def _picked(part: Part, blocks: Any) -> Any:
    """The wanted pairs of blocks (…, P, P'): (…, *tail)."""
    return blocks if part.kind == "all" else blocks[(..., *part.positions())]


def _result(inputs: Any, found: tuple[Any, ...], part: Part, notes: tuple[str, ...], memory: int) -> KernelField:
    """JAX arrays where any input is one."""
    nngp, ntk = found
    if isinstance(nngp, np.ndarray):
        nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(inputs)):
            with precision.scope(nngp.dtype):
                nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    return KernelField(nngp, ntk, positions=part.kind, engine=REFERENCE.name, form="pairs", notes=notes, memory=memory)
