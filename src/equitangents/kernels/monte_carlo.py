"""Kernels estimated from random finite networks, with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._protocols import ShapedNetwork
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.empirical import _full_product, _jacobian, _mean_product, outputs_turn
from equitangents.memory import check_fits
from equitangents.validation import check_array


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

    `dtype` of the networks: float32 unless given. Sample i depends on (key, i) alone. The Jacobians of all
    inputs are held at once; raises MemoryLimitError where they cannot fit.
    """
    x1 = check_array("x1", x1, min_rank=2)
    x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
    if samples < 2:
        raise InvalidArgumentError(f"samples is {samples}; expected at least 2, for a standard error")
    dtype = np.dtype(dtype or np.float32)
    _check_room(net, x1, x2, dtype)
    with precision.scope(dtype):
        a = jnp.asarray(x1, dtype)
        b = a if x2 is None else jnp.asarray(x2, dtype)
        totals: list[Any] = [0.0] * 4
        for i in range(samples):
            nngp, ntk = (np.asarray(k, np.float64) for k in _sample(net, jax.random.fold_in(key, i), a, b))
            sums = zip(totals, (nngp, nngp**2, ntk, ntk**2), strict=True)
            totals = [total + value for total, value in sums]
    nngp, nngp_square, ntk, ntk_square = (total / samples for total in totals)

    def error(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(square - mean**2, 0) / (samples - 1))

    return MonteCarlo(nngp, ntk, error(nngp, nngp_square), error(ntk, ntk_square), samples)


def _check_room(net: ShapedNetwork, x1: Any, x2: Any, dtype: np.dtype) -> None:
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    params = jax.eval_shape(lambda key: net.init(key, x1.shape[1:], dtype="float32"), jax.random.key(0))
    outputs = net.output_shape(x1.shape[1:])[-1]
    blocks = outputs**2 if outputs_turn(net) else 1
    jacobians = (n1 + n2) * outputs * sum(leaf.size for leaf in jax.tree.leaves(params)) * dtype.itemsize
    check_fits(
        f"a Monte Carlo estimate of the kernels of {n1} × {n2} inputs",
        jacobians + 6 * 8 * n1 * n2 * blocks,
        "estimate fewer inputs at a time, or take a narrower network or one with fewer outputs",
    )


@partial(jax.jit, static_argnums=0)
def _sample(net: ShapedNetwork, key: jax.Array, x1: Any, x2: Any) -> tuple[Any, Any]:
    params = net.init(key, x1.shape[1:], dtype=x1.dtype)
    y1, y2 = net.apply(params, x1), net.apply(params, x2)
    if outputs_turn(net):
        nngp = jnp.einsum("io,jp->ijop", y1, y2, precision="highest")
        return nngp, _full_product(_jacobian(net, params, x1), _jacobian(net, params, x2))
    nngp = jnp.matmul(y1, y2.T, precision="highest") / y1.shape[-1]
    return nngp, _mean_product(_jacobian(net, params, x1), _jacobian(net, params, x2))
