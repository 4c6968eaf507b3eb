"""Kernels of structured programs: by a compiled engine, or in tiles of pairs of inputs in JAX; in double precision.

Their kernel fields are the pairs of positions at their end, by the reference engine, one pair of inputs after another.
Pairs of inputs of very different norm are computed in JAX, as in field programs.
"""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import MemoryLimitError
from equitangents.kernels.angular import both, covariance
from equitangents.kernels.branches import flat
from equitangents.kernels.engines import REFERENCE, Engine, choose_where
from equitangents.kernels.engines.reference.structured.execute import Context, execute, tables_of
from equitangents.kernels.engines.reference.structured.fields import State, start, state_of_inputs
from equitangents.kernels.engines.reference.tile import TILE_ELEMENTS
from equitangents.kernels.fields import Part, check_field, check_result
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.runs.scaling import Values, any_traced, cast, result
from equitangents.kernels.scales import norms
from equitangents.kernels.structured import Batch, StructuredProgram, batch_of, check_alike, typed, why_structured
from equitangents.structured import Inputs

logger = logging.getLogger("equitangents")

_FIELDS = 16  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile
_FAR = 10.0  # of log2 of norms, beyond which compiled engines, which carry the distance, lose the covariance


def compute(
    program: StructuredProgram,
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
) -> Kernels | KernelField:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); arrays, Masked or Graphs.

    With `part` the `KernelField` at these pairs of positions, by the reference engine.
    """
    traced = any_traced(x1, x2)
    chosen, notes = choice_of(program, engine, traced, part)
    dtype = precision.working_dtype(x1, x2)
    one = batch_of(program, x1)
    other = one if x2 is None else batch_of(program, x2)
    check_alike(program, one, other)
    if traced:
        same = jnp.eye(len(one.x), dtype=bool) if x2 is None else None
        with precision.scope(dtype):
            found = _tile(program, part, typed(one, dtype), typed(other, dtype), same)
        return result(jax.tree.leaves((x1, x2)), *found, part, 0, between=True, **_facts(REFERENCE, part, notes))
    if part is None:
        memory, sizes = 0, (one.x.shape[-1], len(one.x), len(other.x), np.dtype(dtype).itemsize)
        check_result(one.x, None if x2 is None else other.x, dtype, working_bytes(program, chosen, *sizes))
    else:
        memory = check_field(part, len(one.x), len(other.x), dtype, tile_bytes(program))
    far = far_apart(*(norms(np.asarray(b.x, np.float64)) for b in (one, other)))
    if part is not None:
        nngp, ntk = _fields(program, part, one, other, x2 is None, dtype)
    elif chosen.structured is None:
        nngp, ntk = np.empty(far.shape), np.empty(far.shape)
        _fill(program, one, other, x2 is None, (nngp, ntk), np.ones_like(far))
    else:
        nngp, ntk = chosen.structured.kernels(program, one, None if x2 is None else other)
        if far.any():
            _fill(program, one, other, x2 is None, (nngp, ntk), far)
            count = int(far.sum()) // (2 if x2 is None else 1)
            notes = (*notes, f"{count} pairs of inputs of very different norm by the reference engine")
            logger.info("%s", notes[-1])
    kernels = cast(dtype, nngp, ntk, (one.x, other.x))
    return result(jax.tree.leaves((x1, x2)), *kernels, part, memory, between=True, **_facts(chosen, part, notes))


def compute_diagonal(
    program: StructuredProgram, x: Inputs, engine: str | None = None, part: Part | None = None
) -> Kernels | KernelField:
    """Kernels of each input with itself, each (N,), or their field, (N, *part.layout.tail)."""
    traced = any_traced(x)
    chosen, notes = choice_of(program, engine, traced, part)
    dtype = precision.working_dtype(x)
    batch = batch_of(program, x)
    if part is None:
        check_alike(program, batch, batch)
    if traced:
        with precision.scope(dtype):
            return result(
                jax.tree.leaves(x), *_own(program, part, typed(batch, dtype)), part, 0, **_facts(REFERENCE, part, notes)
            )
    memory = 0 if part is None else check_field(part, len(batch.x), 1, dtype, tile_bytes(program))
    if part is None and chosen.structured is not None:
        nngp, ntk = chosen.structured.diagonal(program, batch)
    else:
        nngp, ntk = _own_in_parts(program, part, batch)
    return result(jax.tree.leaves(x), *cast(dtype, nngp, ntk, (batch.x,)), part, memory, **_facts(chosen, part, notes))


def _own_in_parts(program: StructuredProgram, part: Part | None, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    size = _side(program) ** 2 if part is None else 1
    found = [np.zeros((2, 0, *(() if part is None else part.layout.tail)))]
    with precision.scope(np.float64):
        for i in range(0, len(batch.x), size):
            rows = _filled(batch.rows(slice(i, i + size)), min(size, len(batch.x)))
            found.append(np.stack([np.asarray(v) for v in _compiled_own(program, part, rows)]))
    nngp, ntk = np.concatenate(found, axis=1)[:, : len(batch.x)]
    return nngp, ntk


def _facts(chosen: Engine, part: Part | None, notes: tuple[str, ...]) -> dict[str, Any]:
    """What results say of how they were computed; fields are the reference engine's."""
    return {"engine": (chosen if part is None else REFERENCE).name, "form": "pairs", "notes": notes}


def obstacle(program: StructuredProgram, engine: Engine, traced: bool = False) -> str | None:
    """Why an engine cannot run the program, or None if it can."""
    if engine.over_all_pairs:
        return None
    if engine.structured is None:
        return f"it runs along fibres only, {_not_along(program)}"
    if traced:
        return f"inside JAX programs it runs along fibres only, {_not_along(program)}"
    return engine.structured.obstacle(program)


def _not_along(program: StructuredProgram) -> str:
    return f"and this network runs over all pairs of positions, since {why_structured(program.ops)}"


def choice_of(
    program: StructuredProgram, engine: str | None, traced: bool = False, part: Part | None = None
) -> tuple[Engine, tuple[str, ...]]:
    """The engine that runs the program, and what a reader of the result should know of who computed it.

    A part of a kernel field is for engines that run every program over all pairs.
    """

    def of_field(candidate: Engine) -> str | None:
        fields = f"it has kernel fields along fibres only, {_not_along(program)}"
        return None if candidate.over_all_pairs else fields

    choice = choose_where((lambda e: obstacle(program, e, traced)) if part is None else of_field, engine)
    return choice.engine, choice.notes or (f"all pairs of positions: {why_structured(program.ops)}",)


def working_bytes(program: StructuredProgram, engine: Engine, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that kernels between n1 and n2 inputs take beyond these and the results."""
    if engine.structured is not None:
        return engine.structured.working_bytes(program, channels, n1, n2, itemsize)
    return tile_bytes(program)


def tile_bytes(program: StructuredProgram) -> int:
    """Bytes of one tile of the reference engine."""
    return _side(program) ** 2 * positions(program) ** 2 * _FIELDS * 8


def positions(program: StructuredProgram) -> int:
    """The largest number of positions of any field."""
    given = int(np.prod(program.shape, dtype=np.int64))
    return max(given, *(op.positions_after(given) for op in flat(program.ops)))


def _side(program: StructuredProgram) -> int:
    """Inputs on each side of a tile; raises MemoryLimitError if even one pair is too large."""
    field = positions(program) ** 2
    needed = field * _FIELDS * 8
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError("one pair of inputs", needed, _MEMORY_LIMIT, "use smaller inputs, or pool before")
    return max(1, int((TILE_ELEMENTS // field) ** 0.5))


def _filled(batch: Batch, size: int) -> Batch:
    """In double precision, with copies of the last input up to `size`."""

    def fill(part: ArrayLike | None, dtype: DType) -> np.ndarray | None:
        if part is None:
            return None
        part = np.asarray(part, dtype)
        return np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])

    return Batch(fill(batch.x, np.float64), fill(batch.mask, bool), fill(batch.graphs, np.float64))


def far_apart(logs1: np.ndarray, logs2: np.ndarray) -> np.ndarray:
    """Which pairs of inputs differ so much in norm that the distance does not resolve their covariance."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(logs1[:, None] - logs2)
    return np.isfinite(gap) & (gap > _FAR)


def _fill(
    program: StructuredProgram,
    one: Batch,
    other: Batch,
    symmetric: bool,
    out: tuple[np.ndarray, np.ndarray],
    wanted: np.ndarray,
) -> None:
    """Fill the wanted entries, (N1, N2), of both kernels, tile by tile; symmetric ones from one half of the tiles."""
    rows, (n1, n2) = _side(program), wanted.shape
    with precision.scope(np.float64):
        for i in range(0, n1, rows):
            for j in range(i if symmetric else 0, n2, rows):
                here = slice(i, i + rows), slice(j, j + rows)
                if not wanted[here].any():
                    continue
                values = _concrete(program, one, other, here, symmetric)
                for whole, part in zip(out, values, strict=True):
                    part = (part + part.T) / 2 if symmetric and i == j else part
                    whole[here] = np.where(wanted[here], part, whole[here])
                    if symmetric and j > i:
                        whole[here[::-1]] = whole[here].T


def _concrete(
    program: StructuredProgram, one: Batch, other: Batch, here: tuple[slice, slice], symmetric: bool
) -> tuple[np.ndarray, np.ndarray]:
    """One tile of NumPy arrays; tiles are filled up so that equal shapes compile once."""
    size = tuple(min(_side(program), len(b.x)) for b in (one, other))
    a, b = (_filled(batch.rows(at), n) for batch, at, n in zip((one, other), here, size, strict=True))
    rows, columns = (len(batch.x[at]) for batch, at in zip((one, other), here, strict=True))
    same = np.eye(size[0], size[1]) > 0 if symmetric and here[0].start == here[1].start else np.zeros(size, bool)
    nngp, ntk = (np.asarray(v)[:rows, :columns] for v in _compiled(program, None, a, b, same))
    return nngp, ntk


def _fields(
    program: StructuredProgram, part: Part, one: Batch, other: Batch, alone: bool, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """A part of the field between all inputs, (N1, N2, *tail), input by input."""
    layout, n1, n2, symmetric = part.layout, len(one.x), len(other.x), alone and part.mirrors
    nngp, ntk = layout.zeros((n1, n2), dtype), layout.zeros((n1, n2), dtype)
    with precision.scope(np.float64), np.errstate(over="ignore", under="ignore"):
        for i in range(n1):
            for j in range(i if symmetric else 0, n2):
                a, b = (_filled(batch.rows(slice(k, k + 1)), 1) for batch, k in ((one, i), (other, j)))
                found = _compiled(program, part, a, b, np.full((1, 1), alone and i == j))
                for out, values in zip((nngp, ntk), map(np.asarray, found), strict=True):
                    mirrored = layout.mirrored(values)
                    out[i, j] = ((values + mirrored) / 2 if symmetric and i == j else values)[0, 0]
                    if symmetric and j > i:
                        out[j, i] = mirrored[0, 0]
    return nngp, ntk


def _tile(program: StructuredProgram, part: Part | None, one: Batch, other: Batch, same: jax.Array | None) -> Values:
    """(NNGP, NTK) of a tile, (N1, N2), or (N1, N2, *part.layout.tail)."""
    nngp, ntk = _field_tile(program, one, other, same)
    return _picked(part, nngp), _picked(part, ntk)


def _own(program: StructuredProgram, part: Part | None, batch: Batch) -> Values:
    """(NNGP, NTK) of inputs with themselves, (N,), or (N, *part.layout.tail)."""
    nngp, ntk = _own_field(program, batch)
    return _picked(part, nngp), _picked(part, ntk)


_compiled = jax.jit(_tile, static_argnums=(0, 1))
_compiled_own = jax.jit(_own, static_argnums=(0, 1))


def _picked(part: Part | None, values: jax.Array) -> jax.Array:
    """From (P, P', *inputs) the one position that is left, or the wanted pairs of positions: (*inputs, *tail)."""
    if part is None:
        return values[0, 0]
    first, second = part.positions()
    return jnp.moveaxis(values[first, second], tuple(range(first.ndim)), tuple(range(-first.ndim, 0)))


def _field_tile(program: StructuredProgram, one: Batch, other: Batch, same: jax.Array | None) -> Values:
    """(NNGP, NTK) of a tile at all pairs of positions, (P, P', N1, N2); zero where a mask leaves no position."""
    batches = one, other
    state = state_of_inputs(tuple(_by_position(b.x) for b in batches), tuple(b.mask for b in batches))
    context = Context(tables_of(program.ops), tuple(map(_graph, batches)), same, program.space.masks)
    end = execute(program.ops, (state,), context)[0]
    assert end.cross is not None
    a, b = end.sides[0], end.sides[-1]
    found = covariance(end.cross.e, both(a.q[:, None, :, None], b.q[None, :, None, :])), end.cross.theta
    if a.mask is None or b.mask is None:
        return found
    there = a.mask[:, None, :, None] & b.mask[None, :, None, :]
    nngp, ntk = (jnp.where(there, values, 0) for values in found)
    return nngp, ntk


def _own_field(program: StructuredProgram, batch: Batch) -> Values:
    """(NNGP, NTK) of inputs with themselves at all pairs of positions, (P, P', N)."""
    side, own = start(_by_position(batch.x), batch.mask)
    context = Context(tables_of(program.ops), (_graph(batch),), None, program.space.masks)
    end = execute(program.ops, (State((side,), (own,), None),), context)[0]
    (side,), (own,) = end.sides, end.own
    nngp = covariance(own.e, both(side.q[:, None], side.q[None]))
    if side.mask is None:
        return nngp, own.theta
    there = side.mask[:, None] & side.mask[None]
    return jnp.where(there, nngp, 0), jnp.where(there, own.theta, 0)


def _by_position(x: ArrayLike) -> jax.Array:
    return jnp.swapaxes(jnp.asarray(x), 0, 1)


def _graph(batch: Batch) -> jax.Array | None:
    return None if batch.graphs is None else jnp.moveaxis(jnp.asarray(batch.graphs), 0, -1)
