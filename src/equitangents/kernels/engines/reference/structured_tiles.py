"""Structured programs by the reference engine, in tiles of pairs of inputs, in double precision.

Of their kernel fields, the pairs of positions at their end, one pair of inputs runs after another.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import MemoryLimitError
from equitangents.kernels.angular import both, covariance
from equitangents.kernels.engines.protocol import Pair, StructuredRules
from equitangents.kernels.engines.reference.structured import Context, execute, tables_of
from equitangents.kernels.engines.reference.structured_fields import State, kernels_of_state, start, state_of_inputs
from equitangents.kernels.engines.reference.tile import TILE_ELEMENTS
from equitangents.kernels.fields import MATRIX, Part
from equitangents.kernels.structured import Batch, StructuredProgram, positions, typed

_FIELDS = 16  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile


class TiledStructured(StructuredRules):
    """Every structured program, and its kernel fields, in pure JAX."""

    def obstacle(self, program: StructuredProgram) -> str | None:
        return None

    def kernels(self, program: StructuredProgram, one: Batch, other: Batch | None) -> Pair:
        return tiled(program, one, other, None, np.float64)

    def diagonal(self, program: StructuredProgram, batch: Batch) -> Pair:
        return own(program, batch, None)

    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of one tile."""
        return _side(program) ** 2 * positions(program) ** 2 * _FIELDS * 8


def _side(program: StructuredProgram) -> int:
    """Inputs on each side of a tile; raises MemoryLimitError if even one pair is too large."""
    field = positions(program) ** 2
    needed = field * _FIELDS * 8
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError("one pair of inputs", needed, _MEMORY_LIMIT, "use smaller inputs, or pool before")
    return max(1, int((TILE_ELEMENTS // field) ** 0.5))


def tiled(
    program: StructuredProgram,
    one: Batch,
    other: Batch | None,
    part: Part | None,
    dtype: DType,
    wanted: np.ndarray | None = None,
) -> Pair:
    """(NNGP, NTK) between two sets of inputs (None: the first with itself), (N1, N2), or a part of their field.

    Of `wanted` pairs, (N1, N2), alone: others may be zero.
    """
    layout, second = MATRIX if part is None else part.layout, one if other is None else other
    symmetric = other is None and (part is None or part.mirrors)
    most = _side(program) if part is None else 1
    n1, n2 = len(one.x), len(second.x)
    rows, columns = min(most, n1), min(most, n2)
    nngp, ntk = layout.zeros((n1, n2), dtype), layout.zeros((n1, n2), dtype)
    with precision.scope(np.float64), np.errstate(over="ignore", under="ignore"):
        for i in range(0, n1, most):
            for j in range(i if symmetric else 0, n2, most):
                r, c = slice(i, min(i + most, n1)), slice(j, min(j + most, n2))
                if wanted is not None and not wanted[r, c].any():
                    continue
                same = np.eye(rows, columns) > (0 if other is None and i == j else 1)
                found = _compiled(program, part, _filled(one.rows(r), rows), _filled(second.rows(c), columns), same)
                for out, values in zip((nngp, ntk), found, strict=True):
                    layout.write(out, r, c, values, symmetric)
    return nngp, ntk


def own(program: StructuredProgram, batch: Batch, part: Part | None) -> Pair:
    """(NNGP, NTK) of every input with itself, (N,), or a part of its field, (N, *part.layout.tail)."""
    size = _side(program) ** 2 if part is None else 1
    found = [np.zeros((2, 0, *(() if part is None else part.layout.tail)))]
    with precision.scope(np.float64):
        for i in range(0, len(batch.x), size):
            rows = _filled(batch.rows(slice(i, i + size)), min(size, len(batch.x)))
            found.append(np.stack([np.asarray(v) for v in _compiled_own(program, part, rows)]))
    nngp, ntk = np.concatenate(found, axis=1)[:, : len(batch.x)]
    return nngp, ntk


def traced(program: StructuredProgram, one: Batch, other: Batch | None, part: Part | None, dtype: DType) -> Pair:
    """As `tiled`, in one tile inside a JAX program."""
    same = jnp.eye(len(one.x), dtype=bool) if other is None else None
    return _tile(program, part, typed(one, dtype), typed(one if other is None else other, dtype), same)


def traced_own(program: StructuredProgram, batch: Batch, part: Part | None, dtype: DType) -> Pair:
    """As `own`, inside a JAX program."""
    return _own(program, part, typed(batch, dtype))


def _filled(batch: Batch, size: int) -> Batch:
    """In double precision, with copies of the last input up to `size`, so that equal shapes compile once."""

    def fill(values: ArrayLike | None, dtype: DType) -> np.ndarray | None:
        if values is None:
            return None
        values = np.asarray(values, dtype)
        return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])

    return Batch(fill(batch.x, np.float64), fill(batch.mask, bool), fill(batch.graphs, np.float64))


def _tile(program: StructuredProgram, part: Part | None, one: Batch, other: Batch, same: jax.Array | None) -> Pair:
    """(NNGP, NTK) of a tile, (N1, N2), or (N1, N2, *part.layout.tail)."""
    state = state_of_inputs(tuple(_by_position(b.x) for b in (one, other)), (one.mask, other.mask))
    found = kernels_of_state(_end(program, state, (one, other), same))
    return _picked(part, found.nngp), _picked(part, found.ntk)


def _own(program: StructuredProgram, part: Part | None, batch: Batch) -> Pair:
    """(NNGP, NTK) of inputs with themselves, (N,), or (N, *part.layout.tail)."""
    side, pairs = start(_by_position(batch.x), batch.mask)
    end = _end(program, State((side,), (pairs,), None), (batch,), None)
    (side,), (pairs,) = end.sides, end.own
    nngp, ntk = covariance(pairs.e, both(side.q[:, None], side.q[None])), pairs.theta
    if side.mask is not None:
        nngp, ntk = (jnp.where(side.mask[:, None] & side.mask[None], values, 0) for values in (nngp, ntk))
    return _picked(part, nngp), _picked(part, ntk)


_compiled = jax.jit(_tile, static_argnums=(0, 1))
_compiled_own = jax.jit(_own, static_argnums=(0, 1))


def _end(program: StructuredProgram, state: State, batches: tuple[Batch, ...], same: jax.Array | None) -> State:
    graphs = tuple(None if b.graphs is None else jnp.moveaxis(jnp.asarray(b.graphs), 0, -1) for b in batches)
    context = Context(tables_of(program.ops), graphs, same, program.space.masks)
    return execute(program.ops, (state,), context)[0]


def _picked(part: Part | None, values: jax.Array) -> jax.Array:
    """From (P, P', *inputs) the one position that is left, or the wanted pairs of positions: (*inputs, *tail)."""
    if part is None:
        return values[0, 0]
    first, second = part.positions()
    return jnp.moveaxis(values[first, second], tuple(range(first.ndim)), tuple(range(-first.ndim, 0)))


def _by_position(x: ArrayLike) -> jax.Array:
    return jnp.swapaxes(jnp.asarray(x), 0, 1)
