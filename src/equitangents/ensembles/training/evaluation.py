"""Outputs of many trained members: f_i(x) − b_i(x), with a baseline b_i where the members' variation has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import Params, Tree
from equitangents.ensembles.training.footprint import peak_bytes
from equitangents.ensembles.training.plan import CACHE_BYTES, on_cpu
from equitangents.ensembles.training.recipe import flat
from equitangents.ensembles.training.variations import PLAIN, Variation
from equitangents.nn.compiled_windows import compiled_windows

Shapes = tuple[tuple[tuple[int, ...], str], ...]
_FEWEST_ROWS = 16
_DEVICE_BYTES = 2**30


@partial(jax.jit, static_argnames=("net", "variation"))
def outputs(net: FiniteNetwork, variation: Variation, params: Params, start: Tree, x: jax.Array) -> jax.Array:
    """Outputs (members, N, outputs) of stacked members, less their baselines; of fields all numbers in a row."""

    def one(params: Params, start: Tree) -> jax.Array:
        with compiled_windows():
            y = flat(net.apply(params, x))
        return y - flat(variation.baseline(net, start, x)) if variation.has_baseline else y

    return jax.vmap(one)(params, start)


@partial(jax.jit, static_argnames=("net", "variation"))
def baselines(net: FiniteNetwork, variation: Variation, start: Tree, x: jax.Array) -> jax.Array:
    """What is subtracted from the outputs of stacked members, (members, N, outputs)."""
    return jax.vmap(lambda start: flat(variation.baseline(net, start, x)))(start)


def evaluate(fn: Callable[[jax.Array], jax.Array], x: np.ndarray, dtype: str, size: int) -> np.ndarray:
    """fn on all of x, `size` rows at a time: (members, N, outputs).

    All blocks have one shape, so that they share one compiled program; the last is filled up with copies of its last
    row.
    """
    parts = []
    with precision.scope(dtype):
        for begin in range(0, len(x), size):
            rows = x[begin : begin + size]
            surplus = size - len(rows)
            if surplus:
                rows = np.concatenate([rows, np.repeat(rows[-1:], surplus, axis=0)])
            parts.append(np.asarray(fn(jnp.asarray(rows, dtype)))[:, : size - surplus])
    return np.concatenate(parts, axis=1)


def rows_at_once(net: FiniteNetwork, params: Params, x: np.ndarray, dtype: str) -> int:
    """Rows of x whose evaluation by stacked members stays within bounds: in the cache, or on the device."""
    leaves, structure = jax.tree.flatten(params)
    shapes = tuple((leaf.shape, np.dtype(leaf.dtype).name) for leaf in leaves)
    return min(len(x), _rows_at_once(net, structure, shapes, x.shape[1:], dtype))


@lru_cache(maxsize=128)
def _rows_at_once(
    net: FiniteNetwork, structure: jax.tree_util.PyTreeDef, shapes: Shapes, input_shape: tuple[int, ...], dtype: str
) -> int:
    target = 2 * CACHE_BYTES if on_cpu() else _DEVICE_BYTES

    def peak(rows: int) -> int:
        x = jax.ShapeDtypeStruct((rows, *input_shape), dtype)
        return peak_bytes(lambda p, x: outputs(net, PLAIN, p, None, x), params, x)

    with precision.scope(dtype):
        params = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
        each = (peak(2 * _FEWEST_ROWS) - peak(_FEWEST_ROWS)) // _FEWEST_ROWS
    return max(_FEWEST_ROWS, target // max(each, 1))
