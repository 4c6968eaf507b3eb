"""Kernels as means over random finite networks, with standard errors; sample i depends only on (key, i)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._protocols import ShapedNetwork
from equitangents._types import ArrayLike, Tree
from equitangents.kernels.empirical import Plan, check_finite_network, form_of, plan
from equitangents.kernels.tangent import product_of_outputs, tangent_kernel
from equitangents.memory import check_fits
from equitangents.validation import check_array, check_key, check_whole


@dataclass(frozen=True)
class MonteCarlo:
    """Means over `samples` random networks of N(x1)N(x2) and of the finite-width NTK, and their standard errors.

    All are (N1, N2) and averaged over the network's outputs; of a network that ends in a Readout (N1, N2, d, d),
    between all of them. The standard error is that of the mean over networks; at finite width the mean itself is off by
    a term of order 1/width.
    """

    nngp: np.ndarray
    ntk: np.ndarray
    nngp_std_error: np.ndarray
    ntk_std_error: np.ndarray
    samples: int


def monte_carlo(
    net: ShapedNetwork,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    key: jax.Array,
    samples: int,
    dtype: DTypeLike | None = None,
) -> MonteCarlo:
    """Estimate NNGP and NTK between x1 and x2 (None: x1) from `samples` initialisations drawn from `key`.

    `dtype` of the networks: float32 unless given. Sample i depends on (key, i) alone. The derivatives of all
    inputs are held at once; raises MemoryLimitError where they cannot fit.
    """
    check_finite_network(net)
    x1 = check_array("x1", x1, min_rank=2)
    x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
    check_whole("samples", samples, 2, wanted="a whole number, at least 2, for a standard error")
    check_key(key)
    dtype = np.dtype(dtype or np.float32)
    found = _planned(net, x1, x1 if x2 is None else x2, dtype)

    def sample(drawn: jax.Array) -> Tree:
        return [np.asarray(k, np.float64) for k in _sample(net, found.way, drawn, a, b)]

    with precision.scope(dtype):
        a = jnp.asarray(x1, dtype)
        b = None if x2 is None else jnp.asarray(x2, dtype)
        ((_, (nngp, ntk), (nngp_square, ntk_square)),) = means(sample, key, [samples], powers=2)

    def error(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(square - mean**2, 0) / (samples - 1))

    return MonteCarlo(nngp, ntk, error(nngp, nngp_square), error(ntk, ntk_square), samples)


def means(
    sample: Callable[[jax.Array], Tree], key: jax.Array, counts: Collection[int], powers: int = 1
) -> Iterator[tuple[Tree, ...]]:
    """(n, mean of sample, of its square, …) over the first n draws, for each n of `counts` in ascending order.

    Draw i is `sample` of the i-th key folded into `key`; it makes a tree of arrays, of which `powers` are averaged.
    """
    totals: list[Tree] = []
    for i in range(max(counts)):
        value = sample(jax.random.fold_in(key, i))
        parts = [value, *(jax.tree.map(lambda v, k=k: v**k, value) for k in range(2, powers + 1))]
        totals = [jax.tree.map(lambda t, v: t + v, *pair) for pair in zip(totals, parts, strict=True)] if i else parts
        if i + 1 in counts:
            yield (i + 1, *(jax.tree.map(lambda t, n=i + 1: t / n, total) for total in totals))


def _planned(net: ShapedNetwork, x1: ArrayLike, x2: ArrayLike, dtype: np.dtype) -> Plan:
    shape = tuple(x1.shape[1:])
    with precision.scope(dtype):
        params = jax.eval_shape(lambda key: net.init(key, shape, dtype=dtype), jax.random.key(0))
    found = plan(net, params, shape, form_of(net))
    blocks = found.outputs**2 if form_of(net) == "full" else 1
    derivatives = ((len(x1) + len(x2)) * found.each + found.pair + found.once) * dtype.itemsize
    check_fits(
        f"a Monte Carlo estimate of the kernels of {len(x1)} × {len(x2)} inputs",
        derivatives + 6 * 8 * len(x1) * len(x2) * blocks,
        "estimate fewer inputs at a time, or take a narrower network or one with fewer outputs",
    )
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _sample(
    net: ShapedNetwork, way: str, key: jax.Array, x1: jax.Array, x2: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    form, params = form_of(net), net.init(key, x1.shape[1:], dtype=x1.dtype)
    y1 = net.apply(params, x1)
    y2 = y1 if x2 is None else net.apply(params, x2)
    return product_of_outputs(y1, y2, form), tangent_kernel(net.apply, params, x1, x2, form, way)
