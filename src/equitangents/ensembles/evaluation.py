"""Outputs of many trained members: f_i(x), or f_i(x) − f_i,0(x) for members that start at zero."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import Params
from equitangents.ensembles.footprint import peak_bytes
from equitangents.ensembles.plan import CACHE_BYTES, on_cpu

_FEWEST_ROWS = 16
_DEVICE_BYTES = 2**30


@partial(jax.jit, static_argnames=("net",))
def outputs(net: Any, params: Params, start: Params | None, x: jax.Array) -> jax.Array:
    """Outputs (members, N, outputs) of stacked members, less those of their initial parameters `start`."""

    def one(params: Params, start: Params | None) -> jax.Array:
        y = net.apply(params, x)
        return y if start is None else y - net.apply(start, x)

    return jax.vmap(one)(params, start)


def blocks(net: Any, params: Params, x: np.ndarray, dtype: str) -> Iterator[tuple[int, np.ndarray]]:
    """(how many rows count, block) of x, so small that evaluating stacked members on one stays within bounds.

    All blocks have one shape, so that they share one compiled program; the last is filled up with copies of its
    last row.
    """
    size = _rows_at_once(net, params, x, dtype)
    for begin in range(0, len(x), size):
        rows = x[begin : begin + size]
        count = len(rows)
        if count < size:
            rows = np.concatenate([rows, np.repeat(rows[-1:], size - count, axis=0)])
        yield count, rows


def evaluate(net: Any, params: Params, start: Params | None, x: np.ndarray, dtype: str) -> np.ndarray:
    """Outputs (members, N, outputs) of stacked members on all of x, in blocks."""
    with precision.scope(dtype):
        parts = [
            np.asarray(outputs(net, params, start, jnp.asarray(rows, dtype)))[:, :count]
            for count, rows in blocks(net, params, x, dtype)
        ]
    return np.concatenate(parts, axis=1)


def _rows_at_once(net: Any, params: Params, x: np.ndarray, dtype: str) -> int:
    target = 2 * CACHE_BYTES if on_cpu() else _DEVICE_BYTES
    with precision.scope(dtype):
        stacked = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype), params)

        def peak(rows: int) -> int:
            shape = jax.ShapeDtypeStruct((rows, *x.shape[1:]), dtype)
            return peak_bytes(lambda p, x: outputs(net, p, None, x), stacked, shape)

        each = (peak(2 * _FEWEST_ROWS) - peak(_FEWEST_ROWS)) // _FEWEST_ROWS
    return min(len(x), max(_FEWEST_ROWS, target // max(each, 1)))
