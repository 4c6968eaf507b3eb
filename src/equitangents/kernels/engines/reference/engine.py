"""The reference engine: every program, in pure JAX on any device, in tiles over pairs of inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.engines.protocol import Engine, Pair
from equitangents.kernels.engines.reference import tile
from equitangents.kernels.engines.reference.rotations import TiledRotations
from equitangents.kernels.engines.reference.structured import TiledStructured
from equitangents.kernels.engines.reference.tile import Plan
from equitangents.kernels.operations import Affine
from equitangents.kernels.plans import FieldPlan, field_plan, plan
from equitangents.kernels.program import Program
from equitangents.kernels.result import READOUT, Part
from equitangents.progress import Progress

Scales = tuple[tuple[Any, Any], ...]  # W_var and b_var of layers


def plan_of(program: Program, part: Part | None = None) -> Plan:
    """The plan for kernels, or for a part of the kernel field."""
    return plan(program) if part is None else field_plan(program, part)


class ReferenceEngine(Engine):
    """Pure JAX: runs every network, and is differentiable."""

    name = "reference"
    differentiable = True
    any_norms = True
    carries_angles = True
    has_fields = True
    rotations = TiledRotations()
    structured = TiledStructured()

    def description(self) -> str:
        return f"JAX on {jax.default_backend()}"

    def obstacle(self, program: Program, dtype: Any, part: Part | None = None) -> str | None:
        return None

    def kernels(
        self,
        program: Program,
        x1: np.ndarray,
        x2: np.ndarray | None,
        part: Part | None = None,
        any_norms: bool = False,
    ) -> Pair:
        steps, kept = plan_of(program, part), part or READOUT
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        rows, columns = tile.tile_sides(steps, n1, n2, x1.dtype.itemsize)
        symmetric = x2 is None
        tables = jax.device_put(tile.tables_of(steps))
        bare, scales = _without_scales(steps)
        blocks1 = blocks2 = InputBlocks(steps, tables, x1, rows)
        if x2 is None:
            columns = rows
        else:
            blocks2 = InputBlocks(steps, tables, x2, columns)
        nngp, ntk = kept.zeros((n1, n2), x1.dtype), kept.zeros((n1, n2), x1.dtype)
        tiles = len(blocks1) * (len(blocks1) + 1) // 2 if symmetric else len(blocks1) * len(blocks2)
        progress = Progress(0, tiles, task="kernels")
        for i in range(len(blocks1)):
            one = blocks1[i]
            for j in range(i if symmetric else 0, len(blocks2)):
                r, c = slice(i * rows, min((i + 1) * rows, n1)), slice(j * columns, min((j + 1) * columns, n2))
                found = _compiled(tile.tile, bare, scales, tables, *one, *blocks2[j])
                for out, values in zip((nngp, ntk), found, strict=True):
                    kept.write(out, r, c, values, symmetric)
                progress.add()
        return nngp, ntk

    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        return _one_by_one(tile.diagonal, program, part, x)

    def listed(self, program: Program, x1: np.ndarray, x2: np.ndarray) -> Pair:
        """(NNGP, NTK) of the pairs (x1[p], x2[p]), each (P,), padded so that few sizes are compiled."""
        return _one_by_one(tile.pairs, program, None, x1, x2)

    def traced(self, program: Program, x1: Any, x2: Any, part: Part | None = None) -> Pair:
        """As `kernels`, one tile after another; tiles are recomputed rather than stored for derivatives."""
        x2 = x1 if x2 is None else x2
        steps = plan_of(program, part)
        rows, columns = tile.tile_sides(steps, len(x1), len(x2), x1.dtype.itemsize)
        tables = {key: jnp.asarray(table) for key, table in tile.tables_of(steps).items()}

        def stacked(x: Any, size: int) -> Any:
            y = by_position(x)
            y = jnp.pad(y, ((0, 0), (0, -len(x) % size), (0, 0)))
            return y.reshape((y.shape[0], -1, size, y.shape[2])).swapaxes(0, 1)

        def row(a: Any) -> Any:
            def one(b: Any) -> Any:
                p1, p2 = (tile.prepare(steps, tables, x) for x in (a, b))
                return tile.tile(steps, tables, a, p1, b, p2)

            return jax.lax.map(jax.checkpoint(one), stacked(x2, columns))

        def joined(values: Any) -> Any:
            v = values.swapaxes(1, 2)
            v = v.reshape(v.shape[0] * rows, v.shape[2] * columns, *v.shape[4:])
            return v[: len(x1), : len(x2)]

        nngp, ntk = map(joined, jax.lax.map(row, stacked(x1, rows)))
        return nngp, ntk

    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        return tile.working_bytes(plan_of(program, part), channels, n1, n2, itemsize)


def _one_by_one(
    rule: Callable[..., Any], program: Program, part: Part | None, *inputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`rule` for as many inputs, or pairs of inputs, at a time as a tile has pairs, (2, N, *tail)."""
    steps, count, dtype = plan_of(program, part), len(inputs[0]), inputs[0].dtype
    if not count:
        empty = np.zeros((0, *(part or READOUT).tail), dtype)
        return empty, empty.copy()
    rows, columns = tile.tile_sides(steps, count, count, dtype.itemsize)
    tables = jax.device_put(tile.tables_of(steps))
    bare, scales = _without_scales(steps)
    size = min(rows * columns, 1 << (count - 1).bit_length())
    sides = [InputBlocks(steps, tables, x, size) for x in inputs]
    each = ([v for side in sides for v in side[i]] for i in range(len(sides[0])))
    parts = [_compiled(rule, bare, scales, tables, *arrays) for arrays in each]
    nngp, ntk = (np.concatenate([np.asarray(part[i]) for part in parts])[:count] for i in range(2))
    return nngp, ntk


def by_position(x: Any) -> Any:
    """(N, *positions, C) as (positions, N, C)."""
    return x.reshape((x.shape[0], -1, x.shape[-1])).swapaxes(0, 1)


def _without_scales(plan: Plan) -> tuple[Plan, Scales]:
    """(the plan with scales of weights and biases at 1, these scales): plans that differ in them share a program."""
    scales = tuple((op.W_var, op.b_var) for op in tile.kernels_plan(plan).steps if isinstance(op, Affine))
    return _with_scales(plan, repeat((1.0, 1.0))), scales


def _with_scales(plan: Plan, scales: Iterable[tuple[Any, Any]]) -> Plan:
    """The plan with these scales, in the order of its steps."""
    left = iter(scales)

    def changed(steps: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = ((op, next(left) if isinstance(op, Affine) else None) for op in steps)
        return tuple(op if scale is None else replace(op, W_var=scale[0], b_var=scale[1]) for op, scale in pairs)

    if isinstance(plan, FieldPlan):
        return replace(plan, plan=tile.kernels_plan(_with_scales(plan.plan, left)))
    if plan.form == "pairs":
        return replace(plan, steps=changed(plan.steps))
    return replace(plan, stages=(replace(plan.last, steps=changed(plan.last.steps)),), vector=changed(plan.vector))


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(rule: Callable[..., Any], bare: Plan, scales: Scales, tables: dict[str, Any], *arrays: Any) -> Any:
    """A rule of `tile`, compiled, for inputs with their moments."""
    return rule(_with_scales(bare, scales), tables, *arrays)


class InputBlocks:
    """Inputs in blocks of equal size, the last padded with zeros, each with its moments.

    Blocks are prepared on demand; as many are kept as fit into `tile.PANEL`.
    """

    def __init__(self, steps: Plan, tables: dict[str, Any], x: np.ndarray, size: int) -> None:
        self._steps, self._tables, self._x, self._size = _without_scales(steps), tables, x, size
        self._held: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        each = size * tile.prepared_numbers(steps, x.shape[-1]) * x.dtype.itemsize
        self._most = max(1, tile.PANEL // each)

    def __len__(self) -> int:
        return -(-len(self._x) // self._size)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        if i not in self._held:
            rows = self._x[i * self._size : (i + 1) * self._size]
            block = np.zeros((self._size, *rows.shape[1:]), rows.dtype)
            block[: len(rows)] = rows
            values = jnp.asarray(by_position(block))
            if len(self._held) >= self._most:
                self._held.popitem()  # the latest one: earlier ones are needed first next time
            self._held[i] = values, _compiled(tile.prepare, *self._steps, self._tables, values)
        return self._held[i]
