"""Kernels of one finite network: Θ_ij = Σ_μ ∂_μ N(x1_i) ∂_μ N(x2_j), by Jacobians in tiles of inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import ArrayLike, Params
from equitangents.errors import NetworkError
from equitangents.memory import check_fits
from equitangents.validation import check_array

_MEMORY = 512 << 20  # bytes for the Jacobians held at once


def empirical(net: FiniteNetwork, params: Params, x1: ArrayLike, x2: ArrayLike | None = None) -> ArrayLike:
    """The finite-width NTK between x1 and x2 (None: x1), averaged over outputs: (N1, N2).

    That mean is what converges to `net.kernel(...).ntk`; `empirical_matrix` keeps all outputs, as this does for a
    network that ends in a Readout. Raises MemoryLimitError where the result, or the Jacobian of one input, cannot fit
    in memory.
    """
    if outputs_turn(net):
        return empirical_matrix(net, params, x1, x2)
    return _in_callers_type(x1, _tiles(net, params, x1, x2, _mean_product, full=False))


def empirical_matrix(net: FiniteNetwork, params: Params, x1: ArrayLike, x2: ArrayLike | None = None) -> ArrayLike:
    """The finite-width NTK between all outputs: (N1, N2, outputs, outputs)."""
    return _in_callers_type(x1, _tiles(net, params, x1, x2, _full_product, full=True))


def outputs_turn(net: object) -> bool:
    """Whether the kernels of a network are those between all of its outputs."""
    return getattr(net, "turning_outputs", None) is not None


def _in_callers_type(x: ArrayLike, result: jax.Array) -> ArrayLike:
    return result if isinstance(x, jax.Array) else np.asarray(result)


def _mean_product(a: Any, b: Any) -> Any:
    return jnp.einsum("iou,jou->ij", a, b, precision="highest") / a.shape[1]


def _full_product(a: Any, b: Any) -> Any:
    return jnp.einsum("iou,jpu->ijop", a, b, precision="highest")


def _tiles(net: FiniteNetwork, params: Params, x1: Any, x2: Any, product: Any, *, full: bool) -> Any:
    x1 = check_array("x1", x1, min_rank=2)
    x2 = x1 if x2 is None else check_array("x2", x2, min_rank=2)
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise NetworkError("params holds no parameters, so there is no tangent kernel; expected those of net.init")
    with precision.scope(leaves[0].dtype):
        one = jax.ShapeDtypeStruct(x1[:1].shape, leaves[0].dtype)
        outputs = jax.eval_shape(net.apply, params, one).shape[-1]
    size = sum(leaf.size for leaf in leaves) * leaves[0].dtype.itemsize * outputs
    rows = max(1, _MEMORY // (2 * size))
    results = len(x1) * len(x2) * (outputs**2 if full else 1) * leaves[0].dtype.itemsize
    check_fits(
        f"the empirical kernel of {len(x1)} × {len(x2)} inputs and {outputs} outputs",
        2 * results + 2 * min(rows, len(x1)) * size,  # rows of tiles are joined into columns
        "compute fewer inputs at a time, or a narrower network",
    )
    with precision.scope(leaves[0].dtype):
        dtype = leaves[0].dtype
        parts = []
        for i in range(0, len(x1), rows):
            a = _jacobian(net, params, jnp.asarray(x1[i : i + rows], dtype))
            columns = []
            for j in range(0, len(x2), rows):
                b = a if x2 is x1 and i == j else _jacobian(net, params, jnp.asarray(x2[j : j + rows], dtype))
                columns.append(product(a, b))
            parts.append(jnp.concatenate(columns, axis=1))
        return jnp.concatenate(parts, axis=0)


@partial(jax.jit, static_argnums=0)
def _jacobian(net: FiniteNetwork, params: Params, x: Any) -> Any:
    """(N, outputs, parameters)."""

    def one(example: Any) -> Any:
        jacobian = jax.jacrev(lambda p: net.apply(p, example[None])[0])(params)
        return jnp.concatenate([leaf.reshape((leaf.shape[0], -1)) for leaf in jax.tree.leaves(jacobian)], axis=1)

    return jax.vmap(one)(x)
