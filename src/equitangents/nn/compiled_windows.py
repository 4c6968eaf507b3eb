"""Compiled convolutions of images, without copies of the windows (patches).

y(p) = Σ_u x(stride·p − low + u) w(u), with its transposes in x and in w. Under `vmap` over an ensemble's members, the
members run one after another in the calling thread, so that a member's numbers do not depend on the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial

import jax
import numpy as np

from equitangents._types import DType
from equitangents.kernels.engines.cpu.run import library, why_unavailable
from equitangents.kernels.operations import Box

logger = logging.getLogger("equitangents")

_TYPES = {"float32": "float", "float64": "double"}

_wanted: ContextVar[bool] = ContextVar("compiled windows", default=False)


@contextmanager
def compiled_windows() -> Iterator[None]:
    """Context in which networks compute convolutions by compiled loops if possible: on CPUs, with first-order
    reverse derivatives only.
    """
    before = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(before)


def why_not(box: Box, dtype: DType) -> str | None:
    """The reason why the compiled loops cannot compute this product here (logged once); None if they can."""
    if not _wanted.get():
        return "only training and its predictions ask for them"
    if jax.default_backend() != "cpu":
        return "they run on CPUs"  # elsewhere patches are what is fast
    if len(box.window) > 2:
        found: str | None = "they know grids of one and two dimensions"
    elif np.dtype(dtype).name not in _TYPES:
        found = f"they know {' and '.join(_TYPES)}, not {np.dtype(dtype).name}"
    else:
        found = why_unavailable()
    if found is not None:
        _tell(found)
    return found


@cache
def _tell(why: str) -> None:
    logger.info("convolutions are trained as patches and matrix products, not by the compiled loops: %s", why)


def window_product(x: jax.Array, w: jax.Array, box: Box, instruction_set: int = -1) -> jax.Array:
    """The convolution of x (N, *grid, c) with weights w (|S|·c, outputs): (N, *out, outputs).

    `instruction_set` numbers one of `engines.cpu.run.instruction_sets()`; -1 is the best.
    """
    channels, outputs = x.shape[-1], w.shape[-1]
    missing = 2 - len(box.window)
    grid, out, window, stride = ((1,) * missing + n for n in (box.in_shape, box.out_shape, box.window, box.stride))
    low, high = ((0,) * missing + n for n in (box.low, box.high))
    numbers = (channels, outputs, *grid, *out, *window, *stride, *low, *high, int(box.wrap))
    rows = w.reshape(window[0], window[1] * channels, outputs)
    y = _product(numbers, instruction_set, x.reshape(len(x), *grid, channels), rows)
    return y.reshape(len(x), *box.out_shape, outputs)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _product(numbers: tuple[int, ...], instruction_set: int, x: jax.Array, w: jax.Array) -> jax.Array:
    return _call("outputs", (len(x), *numbers[4:6], numbers[1]), numbers, instruction_set, x, w)


def _forth(
    numbers: tuple[int, ...], instruction_set: int, x: jax.Array, w: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _product(numbers, instruction_set, x, w), (x, w)


def _back(
    numbers: tuple[int, ...], instruction_set: int, saved: tuple[jax.Array, jax.Array], y: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, w = saved
    return (
        _call("to_inputs", x.shape, numbers, instruction_set, y, w),
        _call("to_weights", w.shape, numbers, instruction_set, x, y),
    )


_product.defvjp(_forth, _back)


def _call(
    product: str, shape: tuple[int, ...], numbers: tuple[int, ...], instruction_set: int, *arrays: jax.Array
) -> jax.Array:
    """One of the compiled products; samples lead the first array."""
    result, samples = jax.ShapeDtypeStruct(shape, arrays[0].dtype), len(arrays[0])
    run = jax.ffi.ffi_call(_registered(product, arrays[0].dtype.name), result, vmap_method="expand_dims")
    return run(*arrays, geometry=np.array((samples, *numbers), np.int64), instructions=np.int64(instruction_set))


@cache
def _registered(product: str, dtype: str) -> str:
    """The name under which one of the products is registered in JAX for `dtype`."""
    symbol = f"eqt_window_{product}_{_TYPES[dtype]}"
    handler = getattr(library(), symbol)
    jax.ffi.register_ffi_target(f"equitangents_{symbol}", jax.ffi.pycapsule(handler), platform="cpu")
    return f"equitangents_{symbol}"
