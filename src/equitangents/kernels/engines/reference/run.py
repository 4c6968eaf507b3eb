"""Kernels of many inputs by the reference engine: tiles over pairs, half of them for a symmetric problem."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.engines.reference import tile as reference
from equitangents.kernels.fields import MATRIX, Layout
from equitangents.kernels.operations import Affine
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, plan, tables_of
from equitangents.kernels.program import Program
from equitangents.kernels.progress import Progress
from equitangents.kernels.scales import with_affine

P = TypeVar("P")
Scales = tuple[tuple[Any, Any], ...]  # W_var and b_var of layers


def kernels(program: Program, x1: np.ndarray, x2: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost)."""
    steps = plan(program)
    sides = reference.tile_sides(steps, len(x1), len(x1 if x2 is None else x2), x1.dtype.itemsize)
    tables = jax.device_put(tables_of(steps, program))
    bare, scales = _without_scales(steps)
    return tiled(steps, tables, x1, x2, sides, partial(_tile, bare, scales), MATRIX)


def tiled(
    steps: FibrePlan | PairPlan,
    tables: dict[str, Any],
    x1: np.ndarray,
    x2: np.ndarray | None,
    sides: tuple[int, int],
    tile: Callable[..., tuple[Any, Any]],
    layout: Layout,
    mirrors: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (N1, N2, *layout.tail), by `tile(tables, x1, prepared, x2, prepared)` of so many inputs a side."""
    n1, n2, rows = len(x1), len(x1 if x2 is None else x2), sides[0]
    columns, symmetric = rows if x2 is None else sides[1], x2 is None and mirrors
    blocks1 = Blocks(steps, tables, x1, rows)
    blocks2 = blocks1 if x2 is None else Blocks(steps, tables, x2, columns)
    nngp, ntk = layout.zeros((n1, n2), x1.dtype), layout.zeros((n1, n2), x1.dtype)
    progress = Progress(len(blocks1) * (len(blocks1) + 1) // 2 if symmetric else len(blocks1) * len(blocks2))
    for i in range(len(blocks1)):
        one = blocks1[i]
        for j in range(i if symmetric else 0, len(blocks2)):
            r, c = slice(i * rows, min((i + 1) * rows, n1)), slice(j * columns, min((j + 1) * columns, n2))
            for out, values in zip((nngp, ntk), tile(tables, *one, *blocks2[j]), strict=True):
                layout.write(out, r, c, values, symmetric)
            progress.step()
    return nngp, ntk


def diagonal(program: Program, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of every input of x, (N, *positions, C), with itself, each (N,)."""
    steps = plan(program)
    rows, columns = reference.tile_sides(steps, len(x), len(x), x.dtype.itemsize)
    tables = jax.device_put(tables_of(steps, program))
    blocks = Blocks(steps, tables, x, rows * columns)
    bare, scales = _without_scales(steps)
    parts = [_diagonal(bare, scales, tables, *blocks[i]) for i in range(len(blocks))]
    nngp, ntk = (np.concatenate([np.asarray(part[i]) for part in parts])[: len(x)] for i in range(2))
    return nngp, ntk


def listed(program: Program, x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of the pairs (x1[p], x2[p]), each (P,); few numbers of pairs are compiled."""
    steps, count = plan(program), len(x1)
    rows, columns = reference.tile_sides(steps, count, count, x1.dtype.itemsize)
    tables = jax.device_put(tables_of(steps, program))
    bare, scales = _without_scales(steps)
    size = min(rows * columns, 1 << (count - 1).bit_length())
    one, other = (Blocks(steps, tables, x, size) for x in (x1, x2))
    parts = [_pairs(bare, scales, tables, *one[i], *other[i]) for i in range(len(one))]
    nngp, ntk = (np.concatenate([np.asarray(part[i]) for part in parts])[:count] for i in range(2))
    return nngp, ntk


def traced(program: Program, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Kernels inside a JAX program: one tile after another, recomputed rather than stored for derivatives."""
    steps = plan(program)
    rows, columns = reference.tile_sides(steps, len(x1), len(x2), x1.dtype.itemsize)
    tables = {key: jnp.asarray(table) for key, table in tables_of(steps, program).items()}

    def stacked(x: Any, size: int) -> Any:
        y = by_position(x)
        y = jnp.pad(y, ((0, 0), (0, -len(x) % size), (0, 0)))
        return y.reshape((y.shape[0], -1, size, y.shape[2])).swapaxes(0, 1)

    def row(a: Any) -> Any:
        def one(b: Any) -> Any:
            p1, p2 = (reference.prepare(steps, tables, x) for x in (a, b))
            return reference.tile(steps, tables, a, p1, b, p2)

        return jax.lax.map(jax.checkpoint(one), stacked(x2, columns))

    nngp, ntk = (
        values.transpose(0, 2, 1, 3).reshape(values.shape[0] * rows, values.shape[1] * columns)[: len(x1), : len(x2)]
        for values in jax.lax.map(row, stacked(x1, rows))
    )
    return nngp, ntk


def by_position(x: Any) -> Any:
    """(N, *positions, C) as (positions, N, C)."""
    return x.reshape((x.shape[0], -1, x.shape[-1])).swapaxes(0, 1)


def _without_scales(steps: P) -> tuple[P, Scales]:
    """A plan with all scales of weights and biases at 1, and these: plans that differ in them share a program."""
    scales: list[tuple[float, float]] = []

    def bare(op: Affine) -> Affine:
        scales.append((op.W_var, op.b_var))
        return replace(op, W_var=1.0, b_var=1.0)

    return with_affine(steps, bare), tuple(scales)


def _with_scales(steps: P, scales: Scales) -> P:
    """The plan that `_without_scales` took apart."""
    left = iter(scales)

    def dressed(op: Affine) -> Affine:
        weight, bias = next(left)
        return replace(op, W_var=weight, b_var=bias)

    return with_affine(steps, dressed)


@partial(jax.jit, static_argnums=0)
def _prepare(bare: FibrePlan | PairPlan, scales: Scales, tables: dict[str, Any], x: Any) -> Any:
    return reference.prepare(_with_scales(bare, scales), tables, x)


@partial(jax.jit, static_argnums=0)
def _tile(
    bare: FibrePlan | PairPlan, scales: Scales, tables: dict[str, Any], x1: Any, p1: Any, x2: Any, p2: Any
) -> Any:
    return reference.tile(_with_scales(bare, scales), tables, x1, p1, x2, p2)


@partial(jax.jit, static_argnums=0)
def _pairs(
    bare: FibrePlan | PairPlan, scales: Scales, tables: dict[str, Any], x1: Any, p1: Any, x2: Any, p2: Any
) -> Any:
    return reference.pairs(_with_scales(bare, scales), tables, x1, x2, p1, p2)


@partial(jax.jit, static_argnums=0)
def _diagonal(bare: FibrePlan | PairPlan, scales: Scales, tables: dict[str, Any], x: Any, p: Any) -> Any:
    return reference.diagonal(_with_scales(bare, scales), tables, x, p)


class Blocks:
    """Inputs in blocks of equal size, the last padded with zeros, each with its moments.

    Blocks are prepared when they are asked for; so many are held as fit into `tile.PANEL`.
    """

    def __init__(self, steps: FibrePlan | PairPlan, tables: dict[str, Any], x: np.ndarray, size: int) -> None:
        self._steps, self._tables, self._x, self._size = _without_scales(steps), tables, x, size
        self._held: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        each = size * reference.prepared_numbers(steps, x.shape[-1]) * x.dtype.itemsize
        self._most = max(1, reference.PANEL // each)

    def __len__(self) -> int:
        return -(-len(self._x) // self._size)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        if i not in self._held:
            rows = self._x[i * self._size : (i + 1) * self._size]
            block = np.zeros((self._size, *rows.shape[1:]), rows.dtype)
            block[: len(rows)] = rows
            values = jnp.asarray(by_position(block))
            if len(self._held) >= self._most:
                self._held.popitem()  # the latest one: those before it are asked for first next time
            self._held[i] = values, _prepare(*self._steps, self._tables, values)
        return self._held[i]
