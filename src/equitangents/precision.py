"""The floating-point type of a computation, whatever JAX's global flag is; normal random numbers in it.

NumPy in, NumPy out; JAX in, JAX out. float64 inputs are computed in float64 inside a scope that enables it; the
global flag is never touched.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

_DOUBLE = np.dtype(np.float64)
_SINGLE = frozenset(np.dtype(kind) for kind in (np.float32, np.float16, jax.dtypes.bfloat16))


def is_traced(x: Any) -> bool:
    """Whether `x` is a JAX tracer, whose values are not known yet."""
    return isinstance(x, jax.core.Tracer)


def working_dtype(*arrays: Any) -> np.dtype:
    """float64 if any array is float64 (or integer), else float32."""
    for a in arrays:
        if a is not None and np.dtype(a.dtype) not in _SINGLE:
            return _DOUBLE
    return np.dtype(np.float32)


def scope(dtype: np.dtype | type | str) -> contextlib.AbstractContextManager[None]:
    """Context in which JAX computes in float64 if `dtype` is float64, and ranks are promoted as in NumPy.

    Rank promotion is JAX's default; programs of this package need it also where a user's setting forbids it.
    """
    double = np.dtype(dtype) == np.float64
    settings: Any = jax.config  # whose names are not declared
    # setting them takes as long as a small kernel, and within another scope they are set already
    if settings.jax_numpy_rank_promotion == "allow" and (settings.jax_enable_x64 or not double):
        return _AS_IT_IS
    return _set(double)


_AS_IT_IS = contextlib.nullcontext()


@contextlib.contextmanager
def _set(double: bool) -> Iterator[None]:
    with jax.numpy_rank_promotion("allow"):
        if double:
            with jax.enable_x64(True):
                yield
        else:
            yield


def standard_normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype | type | str) -> jax.Array:
    """Independent draws from N(0, 1) of shape `shape`: those of `jax.random.normal`, from a smaller program.

    Entry i (row-major) depends on the key and i alone, whatever the shape. Drawn as a vector, the numbers are the same
    to the last bit, and XLA compiles the program in half of the time.

    >>> import jax, numpy as np
    >>> key = jax.random.key(0)
    >>> bool((standard_normal(key, (2, 3), np.float32) == jax.random.normal(key, (2, 3), np.float32)).all())
    True
    """
    return jax.random.normal(key, (math.prod(shape),), dtype).reshape(shape)
