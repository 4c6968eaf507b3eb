"""Kernel fields of structured programs: the pairs of positions at their end, by the reference engine."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.engines.reference.carry import COVARIANCE, DISTANCE, Carry
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.fields.size import check_field
from equitangents.kernels.runs.structured import far_apart, field_tile, notes_of_field, own_field, tile_bytes
from equitangents.kernels.scales import check_representable, norms
from equitangents.kernels.structured.batch import Batch, batch_of, check_alike, typed
from equitangents.kernels.structured.program import StructuredProgram


def compute_field(program: StructuredProgram, x1: Any, x2: Any, part: Part, engine: str | None = None) -> KernelField:
    """The field between x1 and x2 (None: x1 with itself) at a part of the pairs of positions, input by input."""
    notes, dtype = notes_of_field(program, engine), precision.working_dtype(x1, x2)
    one = batch_of(program, x1)
    other = one if x2 is None else batch_of(program, x2)
    check_alike(program, one, other)
    n1, n2 = len(one.x), len(other.x)
    same = np.eye(n1, n2, dtype=bool) if x2 is None else np.zeros((n1, n2), bool)
    layout = part.layout
    if _traced(x1, x2):
        with precision.scope(dtype):
            found = field_tile(program, typed(one, dtype), typed(other, dtype), jnp.asarray(same), DISTANCE)
            nngp, ntk = (layout.public(_picked(part, values)) for values in found)
        return KernelField(nngp, ntk, positions=part.kind, engine=REFERENCE.name, form="pairs", notes=notes)
    memory = check_field(part, n1, n2, dtype, tile_bytes(program))
    nngp, ntk = layout.zeros((n1, n2), dtype), layout.zeros((n1, n2), dtype)
    logs1, logs2 = (norms(np.asarray(b.x, np.float64)) for b in (one, other))
    far = far_apart(logs1, logs2)
    with precision.scope(np.float64):
        for i in range(n1):
            for j in range(i if x2 is None and part.mirrors else 0, n2):
                a, b = (_single(batch, k) for batch, k in ((one, i), (other, j)))
                carry = COVARIANCE if far[i, j] else DISTANCE
                found = _tile(program, part, a, b, same[i : i + 1, j : j + 1], carry)
                for out, values in zip((nngp, ntk), map(np.asarray, found), strict=True):
                    mirrored = layout.mirrored(values)
                    out[i, j] = ((values + mirrored) / 2 if x2 is None and i == j and part.mirrors else values)[0, 0]
                    if j > i and x2 is None and part.mirrors:
                        out[j, i] = mirrored[0, 0]
    check_representable(dtype, (nngp, ntk), tuple(np.asarray(b.x) for b in (one, other)))
    return _result((x1, x2), layout.public(nngp), layout.public(ntk), part, notes, memory)


def compute_field_diagonal(program: StructuredProgram, x: Any, part: Part, engine: str | None = None) -> KernelField:
    """The field of each input with itself."""
    notes, dtype = notes_of_field(program, engine), precision.working_dtype(x)
    batch = batch_of(program, x)
    if _traced(x):
        with precision.scope(dtype):
            nngp, ntk = (_picked(part, values) for values in own_field(program, typed(batch, dtype)))
        return KernelField(nngp, ntk, positions=part.kind, engine=REFERENCE.name, form="pairs", notes=notes)
    memory = check_field(part, len(batch.x), 1, dtype, tile_bytes(program))
    nngp, ntk = (np.zeros((len(batch.x), *part.layout.tail), dtype) for _ in range(2))
    with precision.scope(np.float64):
        for i in range(len(batch.x)):
            for out, values in zip((nngp, ntk), _own(program, part, _single(batch, i)), strict=True):
                out[i] = np.asarray(values)[0]
    check_representable(dtype, (nngp, ntk), (np.asarray(batch.x),))
    return _result(x, nngp, ntk, part, notes, memory)


def _traced(*inputs: Any) -> bool:
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def _single(batch: Batch, i: int) -> tuple[Any, Any, Any]:
    """Input number i, in double precision."""
    found = batch.rows(slice(i, i + 1))
    numbers = (None if part is None else np.asarray(part, np.float64) for part in (found.x, found.graphs))
    x, graphs = numbers
    return x, None if found.mask is None else np.asarray(found.mask, bool), graphs


def _picked(part: Part, values: Any) -> Any:
    """From (P, P', *inputs) the wanted pairs of positions: (*inputs, *tail)."""
    first, second = part.positions()
    return jnp.moveaxis(values[first, second], tuple(range(first.ndim)), tuple(range(-first.ndim, 0)))


@partial(jax.jit, static_argnums=(0, 1, 5))
def _tile(program: StructuredProgram, part: Part, one: Any, other: Any, same: Any, carry: Carry) -> tuple[Any, Any]:
    nngp, ntk = field_tile(program, Batch(*one), Batch(*other), same, carry)
    return _picked(part, nngp), _picked(part, ntk)


@partial(jax.jit, static_argnums=(0, 1))
def _own(program: StructuredProgram, part: Part, x: Any) -> tuple[Any, Any]:
    nngp, ntk = own_field(program, Batch(*x))
    return _picked(part, nngp), _picked(part, ntk)


def _result(
    inputs: Any, nngp: np.ndarray, ntk: np.ndarray, part: Part, notes: tuple[str, ...], memory: int
) -> KernelField:
    """JAX arrays where any input is one."""
    found: tuple[Any, Any] = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(inputs)):
        with precision.scope(nngp.dtype):
            found = jnp.asarray(found[0]), jnp.asarray(found[1])
    return KernelField(*found, positions=part.kind, engine=REFERENCE.name, form="pairs", notes=notes, memory=memory)
