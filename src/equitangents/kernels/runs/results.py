"""Shared steps of all runs: detect traced inputs, return arrays of the kind of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.kernels.fields.part import Part
from equitangents.kernels.result import KernelField, Kernels
from equitangents.kernels.scales import check_representable

Values = tuple[jax.Array, jax.Array]  # NNGP and NTK inside a JAX program


def any_traced(*inputs: object) -> bool:
    """Whether any array of any input is traced inside a JAX program."""
    return any(precision.is_traced(leaf) for leaf in jax.tree.leaves(inputs))


def with_derivatives_of(reference: Callable[..., Values], run: Callable[..., Values]) -> Callable[..., Values]:
    """run(*inputs) inside a JAX program, with the derivatives of the reference engine."""
    found = jax.custom_jvp(run)

    @found.defjvp
    def _(primals: tuple[ArrayLike, ...], tangents: tuple[ArrayLike, ...]) -> tuple[Values, Values]:
        return found(*primals), jax.jvp(reference, primals, tangents)[1]

    return found


def cast(dtype: DType, nngp: np.ndarray, ntk: np.ndarray, inputs: Iterable[object]) -> tuple[np.ndarray, np.ndarray]:
    """Both in the precision of the inputs; an error where that cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        nngp, ntk = nngp.astype(dtype, copy=False), ntk.astype(dtype, copy=False)
    check_representable(dtype, (nngp, ntk), tuple(map(np.asarray, inputs)))
    return nngp, ntk


@overload
def result(
    leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, part: None, memory: int, **facts: Any
) -> Kernels: ...


@overload
def result(
    leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, part: Part, memory: int, **facts: Any
) -> KernelField: ...


@overload
def result(
    leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, part: Part | None, memory: int, **facts: Any
) -> Kernels | KernelField: ...


def result(
    leaves: Iterable[object],
    nngp: ArrayLike,
    ntk: ArrayLike,
    part: Part | None,
    memory: int,
    *,
    between: bool = False,
    **facts: Any,
) -> Kernels | KernelField:
    """`Kernels`, or the `KernelField` at a part of the pairs of positions, which was planned to take so much memory.

    Results are JAX arrays where one of the `leaves`, the arrays of the inputs, is. `between` two sets of inputs a field
    shows its axes in another order than it was computed in.
    """
    if part is not None and between:
        nngp, ntk = part.layout.public(nngp), part.layout.public(ntk)
    if isinstance(nngp, np.ndarray):
        if part is not None:
            nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
        if any([isinstance(leaf, jax.Array) for leaf in leaves]):  # a generator takes longer
            with precision.scope(nngp.dtype):
                nngp, ntk = jnp.asarray(nngp), jnp.asarray(ntk)
    if part is None:
        return Kernels(nngp, ntk, **facts)
    return KernelField(nngp, ntk, positions=part.kind, memory=memory, **facts)
