"""Kernels of many inputs: tiles over pairs, half of them for a symmetric problem, memory planned beforehand.

A tile's working set is (largest field) × (pairs in the tile) × (about ten fields); tiles are chosen to stay near the
cache, so that peak memory does not grow with N1·N2·positions².
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import MemoryLimitError
from equitangents.formatting import memory_size
from equitangents.kernels import apart, by_scale, traced_scales
from equitangents.kernels.engines import choose, cpu, gpu, reference
from equitangents.kernels.engines.reference.carry import COVARIANCE, DISTANCE, Carry
from equitangents.kernels.levels import TableLevel
from equitangents.kernels.plan import FibrePlan, PairPlan, plan
from equitangents.kernels.program import Program, Table, arrays_of
from equitangents.kernels.progress import Progress
from equitangents.kernels.result import Kernels
from equitangents.kernels.scales import law_of
from equitangents.kernels.size import check_result

logger = logging.getLogger("equitangents")

_TILE_ELEMENTS = 1 << 17  # numbers in one field of a tile
_FIELDS = 12  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile; only networks over all pairs of positions can come near
_PANEL = 64 << 20  # bytes of prepared inputs that are held at a time, on each side


def compute(program: Program, x1: Any, x2: Any = None, engine: str | None = None) -> Kernels:
    """Kernels of `program` between inputs x1, (N1, *positions, C), and x2 (None: x1 with itself).

    NumPy arrays give NumPy arrays in their own precision. JAX arrays, also traced ones, give JAX arrays, and are
    differentiable. Raises MemoryLimitError where the result cannot fit in memory.
    """
    steps = plan(program)
    dtype = precision.working_dtype(x1, x2)
    name, note = choose(steps, engine, dtype)
    n1, n2 = len(x1), None if x2 is None else len(x2)
    form, notes = "fibre", tuple[str, ...]()
    if isinstance(steps, PairPlan):
        form = "pairs"
        notes = (f"all pairs of positions: {steps.why}",)
        logger.debug("kernel over all pairs of positions: %s", steps.why)
    if note is not None:
        notes = (*notes, note)
    from equitangents.kernels.cost import announce, working_bytes  # which calibrates itself by computing kernels

    check_result(x1, x2, dtype, working_bytes(steps, name, x1.shape[-1], n1, n1 if n2 is None else n2, dtype.itemsize))
    if not any(precision.is_traced(x) for x in (x1, x2)):
        announce(steps, name, x1.shape[-1], n1, n2, dtype)
    with precision.scope(dtype):
        if any(precision.is_traced(x) for x in (x1, x2)):
            nngp, ntk = _traced_by(name, steps, program, x1, x2, dtype)
        else:
            arrays = np.asarray(x1, dtype), None if x2 is None else np.asarray(x2, dtype)
            nngp, ntk, found = by_scale.all_pairs(law_of(program), _ways(program, name), name, *arrays)
            notes = (*notes, *found)
        if any(isinstance(x, jax.Array) for x in (x1, x2)):
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    return Kernels(nngp, ntk, engine=name, form=form, notes=notes)


def _ways(program: Program, name: str) -> by_scale.Ways:
    """Kernels of NumPy arrays by an engine, in their own precision, and by the reference engine where it cannot."""
    steps = plan(program)

    def apart_of(x1: np.ndarray, x2: np.ndarray, scales: tuple[float, float] | None) -> Any:
        sides = tile_sides(steps, len(x1), len(x2), x1.dtype.itemsize)
        return apart.kernels(steps, tables_of(steps, program), x1, x2, sides, scales)

    return by_scale.Ways(
        engine=partial(_concrete, name, program),
        common=lambda x1, x2, factor: _concrete(name, apart.with_biases(program, factor), x1, x2),
        apart=apart_of,
        compiled=name == "reference",
    )


def _concrete(name: str, program: Program, x1: np.ndarray, x2: np.ndarray | None) -> tuple[Any, Any]:
    """Kernels by an engine of inputs that are near to each other in norm."""
    steps = plan(program)
    with precision.scope(x1.dtype):
        if name == "reference":
            return _tiled(steps, program, x1, x2)
        assert isinstance(steps, FibrePlan)
        if name == "cpu":
            return cpu.kernels(steps, x1, x2)
        return gpu.tiled_kernels(steps, tables_of(steps, program), x1, x2)


def _traced_by(name: str, steps: FibrePlan | PairPlan, program: Program, x1: Any, x2: Any, dtype: Any) -> Any:
    """Kernels of traced inputs, at any scale that shows only when the program runs."""
    law = law_of(program)

    def near(a: Any, b: Any) -> Any:
        if name == "reference":
            return _traced(steps, program, a, a if b is None else b)
        assert isinstance(steps, FibrePlan)
        return (_on_cpu if name == "cpu" else _on_gpu)(steps, program, a, b, dtype)

    def far(a: Any, b: Any) -> Any:
        return _traced(steps, program, a, a if b is None else b, COVARIANCE)

    return traced_scales.all_pairs(law, near, far, x1.astype(dtype), None if x2 is None else x2.astype(dtype))


def _on_cpu(steps: FibrePlan, program: Program, x1: Any, x2: Any, dtype: Any) -> tuple[Any, Any]:
    """Kernels of traced inputs by the CPU engine; derivatives, which it lacks, by the rule of the reference engine."""
    return _differentiable(partial(cpu.traced_kernels, steps), steps, program, x1, x2, dtype)


def _on_gpu(steps: FibrePlan, program: Program, x1: Any, x2: Any, dtype: Any) -> tuple[Any, Any]:
    """Kernels of traced inputs by the GPU engine; derivatives, which it lacks, by the rule of the reference engine."""
    traced = {key: jnp.asarray(table) for key, table in tables_of(steps, program).items()}
    return _differentiable(partial(gpu.kernels, steps, traced), steps, program, x1, x2, dtype)


def _differentiable(
    engine: Callable[..., tuple[Any, Any]], steps: FibrePlan, program: Program, x1: Any, x2: Any, dtype: Any
) -> tuple[Any, Any]:
    """engine(x1[, x2]) with the derivatives of the reference engine."""

    @jax.custom_jvp
    def run(*inputs: Any) -> tuple[Any, Any]:
        return engine(*inputs)

    @run.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        _, slopes = jax.jvp(lambda *inputs: _traced(steps, program, inputs[0], inputs[-1]), primals, tangents)
        return run(*primals), slopes

    return run(*(x.astype(dtype) for x in (x1, x2) if x is not None))


def compute_diagonal(program: Program, x: Any, engine: str | None = None) -> Kernels:
    """Kernels of each input x, (N, *positions, C), with itself: NNGP and NTK of shape (N,), at the cost of N pairs."""
    if precision.is_traced(x):
        return _traced_diagonal(program, x, engine)
    steps = plan(program)
    dtype = precision.working_dtype(x)
    name, note = choose(steps, engine, dtype)
    form = "pairs" if isinstance(steps, PairPlan) else "fibre"
    with precision.scope(dtype):
        run = partial(_concrete_diagonal, name)
        nngp, ntk, found = by_scale.diagonal(
            law_of(program),
            partial(run, program),
            lambda y, factor: run(apart.with_biases(program, factor), y),
            np.asarray(x, dtype),
        )
        if isinstance(x, jax.Array):
            nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    return Kernels(nngp, ntk, engine=name, form=form, notes=(*(() if note is None else (note,)), *found))


def _concrete_diagonal(name: str, program: Program, x: np.ndarray) -> tuple[Any, Any]:
    """Kernels of each of some NumPy arrays with itself by an engine, in their precision."""
    steps = plan(program)
    with precision.scope(x.dtype):
        if name == "cpu":
            assert isinstance(steps, FibrePlan)
            return cpu.diagonal(steps, x)
        if name == "gpu":
            assert isinstance(steps, FibrePlan)
            return gpu.tiled_diagonal(steps, tables_of(steps, program), x)
        rows, columns = tile_sides(steps, len(x), len(x), x.dtype.itemsize)
        tables = jax.device_put(tables_of(steps, program))
        blocks = _Blocks(steps, tables, x, rows * columns)
        parts = [_diagonal(steps, tables, *blocks[i]) for i in range(len(blocks))]
        nngp, ntk = (np.concatenate([np.asarray(part[i]) for part in parts])[: len(x)] for i in range(2))
        return nngp, ntk


def _traced_diagonal(program: Program, x: Any, engine: str | None) -> Kernels:
    """The same inside a JAX program, one input after another."""
    run = partial(compute, program, engine=engine)
    return jax.tree.map(lambda k: k[:, 0, 0], jax.lax.map(lambda one: run(one[None]), x))


def tables_of(steps: FibrePlan | PairPlan, program: Program) -> dict[str, Any]:
    """All index tables that running the plan needs."""
    tables = arrays_of(program)
    if isinstance(steps, FibrePlan):
        tables[steps.labels.key] = steps.labels.array
        tables[steps.fibres.key] = steps.fibres.array
        tables |= {op.index.key: op.index.array for op in steps.field if isinstance(op, Table)}
        tables |= {lv.table.key: lv.table.array for lv in steps.levels.levels if isinstance(lv, TableLevel)}
    return tables


def tile_sides(steps: FibrePlan | PairPlan, n1: int, n2: int, itemsize: int) -> tuple[int, int]:
    """Rows and columns of a tile; raises MemoryLimitError if even one pair of inputs is too large."""
    field = steps.positions if isinstance(steps, FibrePlan) else steps.positions**2
    needed = field * _FIELDS * itemsize
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            f"one pair of inputs needs {memory_size(needed)} over all {steps.positions}² pairs of positions, more "
            f"than {memory_size(_MEMORY_LIMIT)}; use smaller inputs, a strided first layer, or a network whose "
            "fibres close (one kind of padding, pooling only at the readout)"
        )
    pairs = max(1, _TILE_ELEMENTS // field)
    side = max(1, int(pairs**0.5))
    rows = min(n1, side)
    return rows, min(n2, max(1, pairs // rows))


def _by_position(x: Any) -> Any:
    """(N, *positions, C) as (positions, N, C)."""
    return x.reshape((x.shape[0], -1, x.shape[-1])).swapaxes(0, 1)


@partial(jax.jit, static_argnums=0)
def _prepare(steps: FibrePlan | PairPlan, tables: dict[str, Any], x: Any) -> Any:
    return reference.prepare(steps, tables, x)


@partial(jax.jit, static_argnums=0)
def _tile(steps: FibrePlan | PairPlan, tables: dict[str, Any], x1: Any, p1: Any, x2: Any, p2: Any) -> Any:
    return reference.tile(steps, tables, x1, p1, x2, p2)


@partial(jax.jit, static_argnums=0)
def _diagonal(steps: FibrePlan | PairPlan, tables: dict[str, Any], x: Any, p: Any) -> Any:
    return reference.diagonal(steps, tables, x, p)


class _Blocks:
    """Inputs in blocks of equal size, the last filled up with zeros, each with what is known of it alone.

    Blocks are prepared when they are asked for; so many are held as fit into `_PANEL`.
    """

    def __init__(self, steps: FibrePlan | PairPlan, tables: dict[str, Any], x: np.ndarray, size: int) -> None:
        self._steps, self._tables, self._x, self._size = steps, tables, x, size
        self._held: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        each = size * _prepared_numbers(steps, x.shape[-1]) * x.dtype.itemsize
        self._most = max(1, _PANEL // each)

    def __len__(self) -> int:
        return -(-len(self._x) // self._size)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        if i not in self._held:
            rows = self._x[i * self._size : (i + 1) * self._size]
            block = np.zeros((self._size, *rows.shape[1:]), rows.dtype)
            block[: len(rows)] = rows
            values = jnp.asarray(_by_position(block))
            if len(self._held) >= self._most:
                self._held.popitem()  # the latest one: those before it are asked for first next time
            self._held[i] = values, _prepare(self._steps, self._tables, values)
        return self._held[i]


def _prepared_numbers(steps: FibrePlan | PairPlan, channels: int) -> int:
    """How many numbers are held of one input: itself, and its moments at every level."""
    if isinstance(steps, FibrePlan):
        levels = [level.positions for level in steps.levels.levels]
        return levels[0] * channels + 2 * sum(levels) + 2 * (len(steps.vector) + 1)
    return steps.positions * channels + 2 * steps.positions * (len(steps.ops) + 1)


def tile_bytes(steps: FibrePlan | PairPlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that the reference engine holds beyond inputs and results: two panels of inputs, tables and one tile."""
    rows, columns = tile_sides(steps, n1, n2, itemsize)
    each = _prepared_numbers(steps, channels) * itemsize
    panels = sum(min(-(-n // side) * side * each, max(_PANEL, side * each)) for n, side in ((n1, rows), (n2, columns)))
    field = steps.positions if isinstance(steps, FibrePlan) else steps.positions**2
    return panels + rows * columns * field * _FIELDS * itemsize


def _tiled(
    steps: FibrePlan | PairPlan, program: Program, x1: np.ndarray, x2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    symmetric = x2 is None
    n1, n2 = len(x1), len(x1) if x2 is None else len(x2)
    rows, columns = tile_sides(steps, n1, n2, x1.dtype.itemsize)
    if symmetric:
        columns = rows
    tables = jax.device_put(tables_of(steps, program))
    blocks1 = _Blocks(steps, tables, x1, rows)
    blocks2 = blocks1 if x2 is None else _Blocks(steps, tables, x2, columns)
    nngp, ntk = np.empty((n1, n2), x1.dtype), np.empty((n1, n2), x1.dtype)
    progress = Progress(len(blocks1) * (len(blocks1) + 1) // 2 if symmetric else len(blocks1) * len(blocks2))
    for i in range(len(blocks1)):
        a, pa = blocks1[i]
        for j in range(i if symmetric else 0, len(blocks2)):
            b, pb = blocks2[j]
            for out, values in zip((nngp, ntk), _tile(steps, tables, a, pa, b, pb), strict=True):
                r, c = slice(i * rows, min((i + 1) * rows, n1)), slice(j * columns, min((j + 1) * columns, n2))
                part = np.asarray(values)[: r.stop - r.start, : c.stop - c.start]
                out[r, c] = part
                if symmetric and j > i:
                    out[c, r] = part.T
                elif symmetric:
                    out[r, c] = (part + part.T) / 2
            progress.step()
    return nngp, ntk


def _traced(
    steps: FibrePlan | PairPlan, program: Program, x1: Any, x2: Any, carry: Carry = DISTANCE
) -> tuple[Any, Any]:
    """The same inside a JAX program: one tile after another, recomputed rather than stored for derivatives."""
    rows, columns = tile_sides(steps, len(x1), len(x2), x1.dtype.itemsize)
    tables = {key: jnp.asarray(table) for key, table in tables_of(steps, program).items()}

    def stacked(x: Any, size: int) -> Any:
        y = _by_position(x)
        y = jnp.pad(y, ((0, 0), (0, -len(x) % size), (0, 0)))
        return y.reshape((y.shape[0], -1, size, y.shape[2])).swapaxes(0, 1)

    def row(a: Any) -> Any:
        def one(b: Any) -> Any:
            p1, p2 = (reference.prepare(steps, tables, x) for x in (a, b))
            return reference.tile(steps, tables, a, p1, b, p2, carry)

        return jax.lax.map(jax.checkpoint(one), stacked(x2, columns))

    nngp, ntk = (
        values.transpose(0, 2, 1, 3).reshape(values.shape[0] * rows, values.shape[1] * columns)[: len(x1), : len(x2)]
        for values in jax.lax.map(row, stacked(x1, rows))
    )
    return nngp, ntk
