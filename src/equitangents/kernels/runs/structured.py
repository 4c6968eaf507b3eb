"""Kernels of structured programs: by a compiled engine, or in tiles of pairs of inputs in JAX; in double precision.

Pairs of inputs of very different norm carry the covariance in place of the distance, as in field programs: in JAX.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines import Choice, Engine, choose_where
from equitangents.kernels.engines.reference.carry import COVARIANCE, DISTANCE, Carry
from equitangents.kernels.engines.reference.sizes import TILE_ELEMENTS
from equitangents.kernels.engines.reference.structured.execute import Context, execute, tables_of
from equitangents.kernels.engines.reference.structured.fields import State
from equitangents.kernels.engines.reference.structured.states import start, state_of_inputs
from equitangents.kernels.result import Kernels
from equitangents.kernels.scales import check_representable, norms
from equitangents.kernels.size import check_result
from equitangents.kernels.structured.batch import Batch, batch_of, check_alike, typed
from equitangents.kernels.structured.program import StructuredProgram, flat
from equitangents.structured import Inputs

logger = logging.getLogger("equitangents")

_FIELDS = 16  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile
_FAR = 10.0  # of log2 of norms, beyond which the covariance is carried


def compute(program: StructuredProgram, x1: Inputs, x2: Inputs | None = None, engine: str | None = None) -> Kernels:
    """Kernels between x1 and x2 (None: x1 with itself), each (N1, N2); arrays, Masked or Graphs."""
    traced = _traced(x1, x2)
    chosen, notes = choice_of(program, engine, traced)
    dtype = precision.working_dtype(x1, x2)
    one = batch_of(program, x1)
    other = one if x2 is None else batch_of(program, x2)
    check_alike(program, one, other)
    if traced:
        same = jnp.eye(len(one.x), dtype=bool) if x2 is None else None
        with precision.scope(dtype):
            nngp, ntk = _tile(program, typed(one, dtype), typed(other, dtype), same, DISTANCE)
        return Kernels(nngp, ntk, form="pairs", notes=notes)
    sizes = one.x.shape[-1], len(one.x), len(other.x), np.dtype(dtype).itemsize
    check_result(one.x, None if x2 is None else other.x, dtype, working_bytes(program, chosen, *sizes))
    far = far_apart(*(norms(np.asarray(b.x, np.float64)) for b in (one, other)))
    if chosen.structured is None:
        nngp, ntk = np.empty(far.shape), np.empty(far.shape)
        _fill(program, one, other, x2 is None, DISTANCE, (nngp, ntk), np.ones_like(far))
    else:
        nngp, ntk = chosen.structured.kernels(program, one, None if x2 is None else other)
    if far.any():
        _fill(program, one, other, x2 is None, COVARIANCE, (nngp, ntk), far)
    if far.any() and not chosen.over_all_pairs:
        count = int(far.sum()) // (2 if x2 is None else 1)
        notes = (*notes, f"{count} pairs of inputs of very different norm by the reference engine")
        logger.info("%s", notes[-1])
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    check_representable(dtype, (nngp, ntk), tuple(np.asarray(b.x) for b in (one, other)))
    return _as_given((x1, x2), nngp, ntk, chosen, notes)


def compute_diagonal(program: StructuredProgram, x: Inputs, engine: str | None = None) -> Kernels:
    """Kernels of each input with itself, each (N,)."""
    traced = _traced(x)
    chosen, notes = choice_of(program, engine, traced)
    dtype = precision.working_dtype(x)
    batch = batch_of(program, x)
    check_alike(program, batch, batch)
    if traced:
        with precision.scope(dtype):
            nngp, ntk = _own(program, typed(batch, dtype))
        return Kernels(nngp, ntk, form="pairs", notes=notes)
    if chosen.structured is None:
        nngp, ntk = _own_in_parts(program, batch)
    else:
        nngp, ntk = chosen.structured.diagonal(program, batch)
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    check_representable(dtype, (nngp, ntk), (np.asarray(batch.x),))
    return _as_given(x, nngp, ntk, chosen, notes)


def _own_in_parts(program: StructuredProgram, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    size = _side(program) ** 2
    parts = []
    with precision.scope(np.float64):
        for i in range(0, len(batch.x), size):
            part = _filled(batch.rows(slice(i, i + size)), min(size, len(batch.x)))
            parts.append([np.asarray(v) for v in _compiled_own(program, *_leaves(part))])
    nngp, ntk = (np.concatenate([p[n] for p in parts])[: len(batch.x)] for n in range(2))
    return nngp, ntk


def _traced(*inputs: Any) -> bool:
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def _as_given(inputs: Any, nngp: np.ndarray, ntk: np.ndarray, by: Engine, notes: tuple[str, ...]) -> Kernels:
    """JAX arrays where any input is one."""
    if not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(inputs)):
        return Kernels(nngp, ntk, engine=by.name, form="pairs", notes=notes)
    with precision.scope(nngp.dtype):
        return Kernels(jnp.asarray(nngp), jnp.asarray(ntk), engine=by.name, form="pairs", notes=notes)


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
    return f"and this network runs over all pairs of positions, since {program.why}"


def choice_of(program: StructuredProgram, engine: str | None, traced: bool = False) -> tuple[Engine, tuple[str, ...]]:
    """The engine that runs the program, and what a reader of the result should know of who computed it."""
    return _told(program, choose_where(lambda e: obstacle(program, e, traced), engine))


def _told(program: StructuredProgram, choice: Choice) -> tuple[Engine, tuple[str, ...]]:
    note = choice.note
    return choice.engine, (f"all pairs of positions: {program.why}",) if note is None else (note,)


def notes_of_field(program: StructuredProgram, engine: str | None) -> tuple[str, ...]:
    """The notes on a kernel field, which only engines that run every program over all pairs compute."""
    why = f"it has kernel fields along fibres only, {_not_along(program)}"
    return _told(program, choose_where(lambda e: None if e.over_all_pairs else why, engine))[1]


def working_bytes(program: StructuredProgram, engine: Engine, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that kernels between n1 and n2 inputs take beyond these and the results."""
    if engine.structured is not None:
        return engine.structured.working_bytes(program, channels, n1, n2, itemsize)
    return tile_bytes(program)


def tile_bytes(program: StructuredProgram) -> int:
    """Bytes of one tile of the reference engine."""
    return _side(program) ** 2 * positions(program) ** 2 * _FIELDS * 8


def positions(program: StructuredProgram) -> int:
    """The largest number of positions on the way."""
    given = int(np.prod(program.shape, dtype=np.int64))
    return max(given, *(op.positions_after(given) for op in flat(program.ops)))


def _side(program: StructuredProgram) -> int:
    """Inputs on each side of a tile; raises MemoryLimitError if even one pair is too large."""
    field = positions(program) ** 2
    needed = field * _FIELDS * 8
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            f"one pair of inputs needs {needed / 2**30:.1f} GiB over all {positions(program)}² pairs of positions, "
            f"more than {_MEMORY_LIMIT / 2**30:.0f} GiB; {program.why}: use smaller inputs, or pool before"
        )
    return max(1, int((TILE_ELEMENTS // field) ** 0.5))


def _leaves(batch: Batch) -> tuple[Any, Any, Any]:
    return batch.x, batch.mask, batch.graphs


def _filled(batch: Batch, size: int) -> Batch:
    """In double precision, with copies of the last input up to `size`."""

    def fill(part: Any, dtype: Any) -> Any:
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
    carry: Carry,
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
                values = _concrete(program, one, other, here, symmetric, carry)
                for whole, part in zip(out, values, strict=True):
                    part = (part + part.T) / 2 if symmetric and i == j else part
                    whole[here] = np.where(wanted[here], part, whole[here])
                    if symmetric and j > i:
                        whole[here[::-1]] = whole[here].T


def _concrete(
    program: StructuredProgram, one: Batch, other: Batch, here: tuple[slice, slice], symmetric: bool, carry: Carry
) -> tuple[np.ndarray, np.ndarray]:
    """One tile of NumPy arrays; tiles are filled up so that equal shapes compile once."""
    size = tuple(min(_side(program), len(b.x)) for b in (one, other))
    a, b = (_filled(batch.rows(at), n) for batch, at, n in zip((one, other), here, size, strict=True))
    rows, columns = (len(batch.x[at]) for batch, at in zip((one, other), here, strict=True))
    same = np.eye(size[0], size[1]) > 0 if symmetric and here[0].start == here[1].start else np.zeros(size, bool)
    nngp, ntk = (np.asarray(v)[:rows, :columns] for v in _compiled(program, _leaves(a), _leaves(b), same, carry))
    return nngp, ntk


@partial(jax.jit, static_argnums=(0, 4))
def _compiled(program: StructuredProgram, one: Any, other: Any, same: Any, carry: Carry) -> tuple[Any, Any]:
    return _tile(program, Batch(*one), Batch(*other), same, carry)


@partial(jax.jit, static_argnums=0)
def _compiled_own(program: StructuredProgram, x: Any, mask: Any, graphs: Any) -> tuple[Any, Any]:
    return _own(program, Batch(x, mask, graphs))


def _tile(program: StructuredProgram, one: Batch, other: Batch, same: Any, carry: Carry) -> tuple[Any, Any]:
    """(NNGP, NTK) of a tile, (N1, N2)."""
    nngp, ntk = field_tile(program, one, other, same, carry)
    return nngp[0, 0], ntk[0, 0]


def field_tile(program: StructuredProgram, one: Batch, other: Batch, same: Any, carry: Carry) -> tuple[Any, Any]:
    """(NNGP, NTK) of a tile at all pairs of positions, (P, P', N1, N2); zero where a mask leaves no position."""
    x1, x2 = (_by_position(b.x) for b in (one, other))
    state = state_of_inputs(x1, x2, one.mask, other.mask, carry)
    context = Context(tables_of(program.ops), (_graph(one), _graph(other)), same, carry, program.masks)
    end = execute(program.ops, (state,), context)[0]
    assert end.cross is not None
    q1, q2 = end.one.q[:, None, :, None], end.other.q[None, :, None, :]
    found = carry.covariance(end.cross.d, q1, q2), end.cross.theta
    if end.one.mask is None or end.other.mask is None:
        return found
    there = end.one.mask[:, None, :, None] & end.other.mask[None, :, None, :]
    nngp, ntk = (jnp.where(there, values, 0) for values in found)
    return nngp, ntk


def _own(program: StructuredProgram, batch: Batch) -> tuple[Any, Any]:
    """(NNGP, NTK) of inputs with themselves, (N,)."""
    nngp, ntk = own_field(program, batch)
    return nngp[0, 0], ntk[0, 0]


def own_field(program: StructuredProgram, batch: Batch) -> tuple[Any, Any]:
    """(NNGP, NTK) of inputs with themselves at all pairs of positions, (P, P', N)."""
    side, own = start(_by_position(batch.x), batch.mask)
    # One input stands for the second set, which nobody reads.
    other, its = (jax.tree.map(lambda v: v[..., :1], part) for part in (side, own))
    graphs = _graph(batch)
    few = None if graphs is None else graphs[..., :1]
    context = Context(tables_of(program.ops), (graphs, few), None, DISTANCE, program.masks)
    end = execute(program.ops, (State(side, other, own, its, None),), context)[0]
    nngp = DISTANCE.covariance(end.own1.d, end.one.q[:, None], end.one.q[None])
    if end.one.mask is None:
        return nngp, end.own1.theta
    there = end.one.mask[:, None] & end.one.mask[None]
    return jnp.where(there, nngp, 0), jnp.where(there, end.own1.theta, 0)


def _by_position(x: Any) -> Any:
    return jnp.swapaxes(jnp.asarray(x), 0, 1)


def _graph(batch: Batch) -> Any:
    return None if batch.graphs is None else jnp.moveaxis(jnp.asarray(batch.graphs), 0, -1)
