"""What runs of every kind of program begin and end with: whether inputs are traced, and arrays of the kind given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.kernels.fields.part import Part
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.scales import check_representable


def any_traced(*inputs: Any) -> bool:
    """Whether any array of any input is traced inside a JAX program."""
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def cast(dtype: DType, nngp: np.ndarray, ntk: np.ndarray, inputs: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Both in the precision of the inputs; an error where that cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype, copy=False), ntk.astype(dtype, copy=False)
    check_representable(dtype, (nngp, ntk), tuple(map(np.asarray, inputs)))
    return nngp, ntk


def result(leaves: Iterable[Any], nngp: Any, ntk: Any, part: Part | None, memory: int, **facts: Any) -> Any:
    """`Kernels`, or the `KernelField` at a part of the pairs of positions, which was planned to take so much memory.

    `leaves` are the arrays of the inputs: results are JAX arrays where one of them is.
    """
    if isinstance(nngp, np.ndarray):
        if part is not None:
            nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
        if any(isinstance(leaf, jax.Array) for leaf in leaves):
            with precision.scope(nngp.dtype):
                nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    if part is None:
        return Kernels(nngp, ntk, **facts)
    return KernelField(nngp, ntk, positions=part.kind, memory=memory, **facts)
