"""Kernel fields by the reference engine: what `tile` would sum over fibres is kept, pair of positions by pair."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines.reference.run import Blocks, by_position, tiled
from equitangents.kernels.engines.reference.tile import (
    TILE_ELEMENTS,
    Prepared,
    aligned,
    over_pairs,
    prepare,
    run_fibre,
    tile_sides,
    working_bytes,
)
from equitangents.kernels.fields import FieldPlan, places
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, tables_of
from equitangents.kernels.program import Program

_PLACES = "places"  # of the wanted pairs, among the tables
_MEMORY_LIMIT = 4 << 30  # bytes for one pair of inputs
_COPIES = 8  # of what fibres give and of the wanted part, alive at once


def field_kernels(
    plan: FieldPlan, program: Program, x1: np.ndarray, x2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), each (N1, N2, *tail), between x1, (N1, *positions, C), and x2 (None: x1, at half the cost)."""
    side = sides(plan, len(x1), len(x1 if x2 is None else x2), x1.dtype.itemsize)
    tables, part = _on_device(plan, program), plan.part
    return tiled(_steps(plan), tables, x1, x2, side, partial(_tile, plan), part.layout, part.mirrors)


def field_diagonal(plan: FieldPlan, program: Program, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of every input of x with itself, each (N, *tail)."""
    rows, columns = sides(plan, len(x), len(x), x.dtype.itemsize)
    tables = _on_device(plan, program)
    blocks = Blocks(_steps(plan), tables, x, rows * columns)
    parts = [[np.asarray(v) for v in _own(plan, tables, *blocks[i])] for i in range(len(blocks))]
    if not parts:
        empty = np.zeros((0, *plan.part.layout.tail), x.dtype)
        return empty, empty.copy()
    nngp, ntk = (np.concatenate([p[n] for p in parts])[: len(x)] for n in range(2))
    return nngp, ntk


def traced_fields(plan: FieldPlan, program: Program, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Fields inside a JAX program, one first input after another: (N1, N2, *tail)."""
    tables = {key: jnp.asarray(table) for key, table in field_tables(plan, program).items()}
    y1, y2 = by_position(x1), by_position(x2)

    def one(a: Any) -> tuple[Any, Any]:
        p1, p2 = (prepare(_steps(plan), tables, y) for y in (a[:, None], y2))
        nngp, ntk = field_tile(plan, tables, a[:, None], p1, y2, p2)
        return nngp[0], ntk[0]

    nngp, ntk = jax.lax.map(jax.checkpoint(one), y1.swapaxes(0, 1))
    return nngp, ntk


def traced_field_diagonal(plan: FieldPlan, program: Program, x: Any) -> tuple[Any, Any]:
    """Every input with itself inside a JAX program: (N, *tail)."""
    tables = {key: jnp.asarray(table) for key, table in field_tables(plan, program).items()}
    y = by_position(x)
    return own_field(plan, tables, y, prepare(_steps(plan), tables, y))


def field_tile(
    plan: FieldPlan, tables: dict[str, Any], x1: Any, p1: Prepared, x2: Any, p2: Prepared
) -> tuple[Any, Any]:
    """(NNGP, NTK) between x1, (positions, N1, channels), and x2, each (N1, N2, *tail)."""
    p1, p2 = aligned(p1, p2)
    return _picked(plan, tables, x1[:, :, None], p1, x2[:, None], p2)


def own_field(plan: FieldPlan, tables: dict[str, Any], x: Any, p: Prepared) -> tuple[Any, Any]:
    """(NNGP, NTK) of each input of x, (positions, N, channels), with itself, each (N, *tail)."""
    return _picked(plan, tables, x, p, x, p)


def _picked(plan: FieldPlan, tables: dict[str, Any], x1: Any, p1: Prepared, x2: Any, p2: Prepared) -> tuple[Any, Any]:
    """Values (fibres or first positions, first or second positions, *batch), at the wanted pairs: (*batch, *tail)."""
    steps, index = _steps(plan), tables[_PLACES]
    m1, m2 = p1.field, p2.field
    if steps.form == "pairs":
        both = over_pairs(steps, tables, x1, x2, m1, m2)
    else:

        def one(label: Any) -> tuple[Any, Any]:
            _, state, at = run_fibre(steps, tables, label, x1, x2, m1, m2)
            return state.covariance(at), state.theta

        both = jax.lax.map(jax.checkpoint(one), tables[steps.fibres.key])

    def picked(values: Any) -> Any:
        flat = values.reshape((-1, *values.shape[2:]))[index]
        return jnp.moveaxis(flat, tuple(range(index.ndim)), tuple(range(-index.ndim, 0)))

    return picked(both[0]), picked(both[1])


def sides(plan: FieldPlan, n1: int, n2: int, itemsize: int) -> tuple[int, int]:
    """Rows and columns of a tile; raises MemoryLimitError if even one pair of inputs is too large."""
    needed = _numbers(plan) * _COPIES * itemsize
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            "a kernel field of one pair of inputs",
            needed,
            _MEMORY_LIMIT,
            "ask for positions='same' or for pairs of positions, or use smaller inputs",
        )
    rows, columns = tile_sides(_steps(plan), n1, n2, itemsize)
    most = max(1, TILE_ELEMENTS // _numbers(plan))
    rows = min(rows, max(1, int(most**0.5)))
    return rows, min(columns, max(1, most // rows))


def field_working_bytes(plan: FieldPlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that the reference engine holds beyond inputs and results."""
    rows, columns = sides(plan, n1, n2, itemsize)
    kept = rows * columns * _numbers(plan) * _COPIES * itemsize
    return kept + working_bytes(_steps(plan), channels, n1, n2, itemsize)


def _numbers(plan: FieldPlan) -> int:
    return max(plan.values, plan.part.layout.numbers, 1)


def _steps(plan: FieldPlan) -> FibrePlan | PairPlan:
    assert isinstance(plan.steps, FibrePlan | PairPlan)
    return plan.steps


def field_tables(plan: FieldPlan, program: Program) -> dict[str, Any]:
    """All index tables that running the plan needs."""
    return {**tables_of(_steps(plan), program), _PLACES: places(plan).astype(np.int32)}


def _on_device(plan: FieldPlan, program: Program) -> dict[str, Any]:
    return dict(jax.device_put(field_tables(plan, program)))


@partial(jax.jit, static_argnums=0)
def _tile(plan: FieldPlan, tables: dict[str, Any], x1: Any, p1: Any, x2: Any, p2: Any) -> Any:
    return field_tile(plan, tables, x1, p1, x2, p2)


@partial(jax.jit, static_argnums=0)
def _own(plan: FieldPlan, tables: dict[str, Any], x: Any, p: Any) -> Any:
    return own_field(plan, tables, x, p)
