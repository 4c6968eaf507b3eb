"""Runs a plan's fibres on the GPU inside JAX programs, and what comes before and after them in JAX.

Before: what is known of each input alone. After: the layers on plain vectors that follow the readout.
"""

from __future__ import annotations

import hashlib
from functools import cache, partial
from typing import Any

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.engines import reference
from equitangents.kernels.engines.cpu import library
from equitangents.kernels.engines.gpu.availability import capability
from equitangents.kernels.engines.gpu.compiler import cubin, emulated, host_function, run_on_host
from equitangents.kernels.engines.gpu.sides import sides
from equitangents.kernels.engines.gpu.source import Source, source
from equitangents.kernels.plan import FibrePlan

BLOCKS = 2048  # blocks that keep a large GPU busy
ALL, TRIANGLE, DIAGONAL = 0, 1, 2  # kinds of pairs, as in native/src/gpu/fibre.hpp
_TARGET = "equitangents_gpu_fibres"


def kernels(plan: FibrePlan, tables: dict[str, Any], x1: Any, x2: Any | None = None) -> tuple[Any, Any]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost).

    It has no derivatives.
    """
    p1 = _prepare(plan, tables, x1)
    p2 = p1 if x2 is None else _prepare(plan, tables, x2)
    first, theta = _sums(plan, x1, p1.field, x1 if x2 is None else x2, p2.field, TRIANGLE if x2 is None else ALL)
    return reference.after_readout(plan, tables, first, theta, *reference.aligned(p1, p2))


def diagonal(plan: FibrePlan, tables: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """(NNGP, NTK) of every input of x, (N, *positions, C), with itself, each (N,)."""
    p = _prepare(plan, tables, x)
    first, theta = _sums(plan, x, p.field, x, p.field, DIAGONAL)
    return reference.own_after_readout(plan, tables, first, theta, p)


def _prepare(plan: FibrePlan, tables: dict[str, Any], x: Any) -> reference.Prepared:
    """Moments of the inputs; those of pooled vectors need all fibres of each input with itself, and so this engine."""
    by_position = x.reshape((x.shape[0], -1, x.shape[-1])).swapaxes(0, 1)

    def own(moments: Any) -> Any:
        return _sums(plan, x, moments, x, moments, DIAGONAL)[0]

    return reference.prepare(plan, tables, by_position, own)


def _sums(plan: FibrePlan, x1: Any, m1: Any, x2: Any, m2: Any, kind: int) -> tuple[Any, Any]:
    """The readout's weighted sums over all fibres: (K, Θ), or (D, Θ) where a nonlinearity follows a single fibre."""
    made = source(plan, x1.shape[-1], x1.dtype.name)
    n1, n2 = len(x1), len(x2)
    pairs = {ALL: n1 * n2, TRIANGLE: n1 * (n1 + 1) // 2, DIAGONAL: n1}[kind]
    groups = -(-pairs // made.shape.pairs)
    splits = max(1, min(-(-BLOCKS // groups), -(-len(made.shape.labels) // made.shape.fibres)))
    inputs = (
        x1,
        x2,
        sides(made.sides, made.size, m1),
        sides(made.sides, made.size, m2),
        jnp.asarray(made.reals, x1.dtype),
        jnp.asarray(made.tables),
    )
    shape = (splits, n1) if kind == DIAGONAL else (splits, n1, n2)
    call = _on_host if emulated() else _on_device
    k, theta = call(made, inputs, (n1, n2, pairs, splits, kind, groups * splits), shape)
    return jnp.sum(k, axis=0), jnp.sum(theta, axis=0)


def _on_host(made: Source, inputs: tuple[Any, ...], numbers: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    out = jax.ShapeDtypeStruct(shape, inputs[0].dtype)

    host_function(made.text, made.name)  # compiled here, where errors are readable

    def call(*arrays: Any) -> Any:
        return run_on_host(made, tuple(map(np.asarray, arrays)), numbers, shape)

    return jax.pure_callback(call, (out, out), *inputs, vmap_method="sequential")


def _on_device(made: Source, inputs: tuple[Any, ...], numbers: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    out = jax.ShapeDtypeStruct(shape, inputs[0].dtype)
    code = cubin(made.text, capability())
    call = jax.ffi.ffi_call(registered(), (out, out), vmap_method="sequential")
    return call(
        *inputs,
        code=np.frombuffer(code, np.uint8),
        digest=hashlib.sha256(code).hexdigest(),
        name=made.name,
        numbers=np.array((*numbers, made.shape.threads, made.shape.bytes), np.int64),
    )


@cache
def registered() -> str:
    """The name under which JAX knows what launches kernels."""
    handler = jax.ffi.pycapsule(library.library().eqt_ffi_gpu_launch)
    jax.ffi.register_ffi_target(_TARGET, handler, platform="CUDA")
    return _TARGET


@partial(jax.jit, static_argnums=0)
def jitted_kernels(plan: FibrePlan, tables: dict[str, Any], x1: Any, x2: Any | None) -> tuple[Any, Any]:
    """`kernels`, compiled once for each plan and shape."""
    return kernels(plan, tables, x1, x2)


@partial(jax.jit, static_argnums=0)
def jitted_diagonal(plan: FibrePlan, tables: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """`diagonal`, compiled once for each plan and shape."""
    return diagonal(plan, tables, x)


def compiled(plan: FibrePlan, tables: dict[str, Any], x: Any) -> Any:
    """The compiled program of x with itself, to look into (`as_text()`, `memory_analysis()`)."""
    return jitted_kernels.lower(plan, tables, x, None).compile()
