"""Kernels of many inputs on the GPU: tiles over pairs, half of them for a symmetric problem.

A tile is one launch of about half a second on a large GPU, so that Ctrl-C stops a long run soon, and memory beyond
inputs and results does not grow with their number.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from equitangents.kernels.engines.gpu.availability import device
from equitangents.kernels.engines.gpu.compiler import emulated
from equitangents.kernels.engines.gpu.run import BLOCKS, jitted_diagonal, jitted_kernels
from equitangents.kernels.engines.gpu.source import source
from equitangents.kernels.plans.plan import FibrePlan

_TILE_WORK = 1e11  # element-layers in a tile
_EMULATED_WORK = 1e7
_LARGEST_SIDE = 2048


def tile_side(plan: FibrePlan) -> int:
    """How many inputs a tile has on each side."""
    work = len(plan.fibres.array) * plan.positions * max(1, len(plan.field) // 3)
    return int(min(_LARGEST_SIDE, max(1.0, ((_EMULATED_WORK if emulated() else _TILE_WORK) / work) ** 0.5)))


def working_bytes(plan: FibrePlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes on the GPU beyond inputs and results: a tile's inputs, what is known of each alone, and its results."""
    made = source(plan, channels, np.dtype(f"float{8 * itemsize}").name)
    rows, columns = (min(n, tile_side(plan)) for n in (n1, n2))
    each = plan.levels.levels[0].positions * channels + 3 * made.size  # moments, and numbers made of them
    tables = 4 * made.tables.size
    splits = 2 * max(rows * columns, BLOCKS * made.shape.pairs)
    return tables + itemsize * ((rows + columns) * each + 2 * splits)


def tiled_kernels(
    plan: FibrePlan, tables: dict[str, np.ndarray], x1: np.ndarray, x2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost)."""
    on_device = jax.device_put(tables, device())
    n1, n2 = len(x1), len(x1) if x2 is None else len(x2)
    side = tile_side(plan)
    rows, columns = (min(n1, side), min(n1 if x2 is None else n2, side))
    nngp, ntk = np.empty((n1, n2), x1.dtype), np.empty((n1, n2), x1.dtype)
    for i in range(0, n1, max(rows, 1)):
        a = _block(x1, i, rows)
        for j in range(i if x2 is None else 0, n2, max(columns, 1)):
            own = x2 is None and j == i
            other = None if own else _block(x1 if x2 is None else x2, j, columns)
            r, c = slice(i, min(i + rows, n1)), slice(j, min(j + columns, n2))
            for out, values in zip((nngp, ntk), jitted_kernels(plan, on_device, a, other), strict=True):
                out[r, c] = np.asarray(values)[: r.stop - i, : c.stop - j]
                if own:  # what follows the readout is rounded in another order below the diagonal
                    out[r, c] = np.triu(out[r, c]) + np.triu(out[r, c], 1).T
                elif x2 is None:
                    out[c, r] = out[r, c].T
    return nngp, ntk


def tiled_diagonal(plan: FibrePlan, tables: dict[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of every input of x, (N, *positions, C), with itself, each (N,)."""
    on_device = jax.device_put(tables, device())
    size = min(len(x), tile_side(plan) ** 2, _LARGEST_SIDE)
    nngp, ntk = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    for i in range(0, len(x), max(size, 1)):
        for out, values in zip((nngp, ntk), jitted_diagonal(plan, on_device, _block(x, i, size)), strict=True):
            out[i : i + size] = np.asarray(values)[: len(x) - i]
    return nngp, ntk


def _block(x: np.ndarray, begin: int, size: int) -> Any:
    """`size` inputs from `begin` on, filled up with zeros, so that all tiles are one compiled program."""
    block = np.zeros((size, *x.shape[1:]), x.dtype)
    part = x[begin : begin + size]
    block[: len(part)] = part
    return jax.device_put(block, device())
