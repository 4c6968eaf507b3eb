"""Checks of array arguments: each error names the argument, what it was and what it may be."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from equitangents.errors import InvalidTypeError, NotFiniteError, ShapeError
from equitangents.precision import is_traced


def check_array(
    name: str,
    x: Any,
    *,
    rank: int | tuple[int, ...] | None = None,
    min_rank: int = 1,
    shape: tuple[int | None, ...] | None = None,
    allow_empty: bool = False,
) -> Any:
    """`x` as a floating NumPy or JAX array of the wanted rank and shape, all entries finite.

    Integers become float64. Traced JAX arrays are checked for shape alone. `None` in `shape` matches any size.
    Raises InvalidTypeError, ShapeError or NotFiniteError, naming `name`.
    """
    if not isinstance(x, jax.Array):
        try:
            x = np.asarray(x)
        except ValueError as error:
            raise ShapeError(f"{name} is not a rectangular array: {error}") from None
    dtype = np.dtype(x.dtype)
    if dtype.kind in "biu":
        x = x.astype(np.float64) if isinstance(x, np.ndarray) else x.astype(float)
    elif dtype.kind != "f" and dtype.name != "bfloat16":
        raise InvalidTypeError(f"{name} has dtype {dtype}; expected real numbers (float32 or float64)")
    ranks = (rank,) if isinstance(rank, int) else rank
    if ranks is not None and x.ndim not in ranks:
        raise ShapeError(f"{name} has rank {x.ndim} (shape {x.shape}); expected rank {' or '.join(map(str, ranks))}")
    if x.ndim < min_rank:
        raise ShapeError(f"{name} has rank {x.ndim} (shape {x.shape}); expected at least {min_rank} axes")
    if shape is not None and (
        len(shape) != x.ndim or any(w is not None and w != g for w, g in zip(shape, x.shape, strict=True))
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise ShapeError(f"{name} has shape {x.shape}; expected {wanted}")
    if x.size == 0 and not allow_empty:
        raise ShapeError(f"{name} is empty (shape {x.shape})")
    if not is_traced(x) and not bool(np.isfinite(np.asarray(x)).all()):
        bad = np.argwhere(~np.isfinite(np.asarray(x)))[0]
        where = tuple(int(i) for i in bad)
        raise NotFiniteError(f"{name} holds NaN or infinite values, the first at index {where}; remove or impute them")
    return x


def check_same_length(name1: str, x1: Any, name2: str, x2: Any) -> None:
    """Raise ShapeError unless the two arrays have equally many rows."""
    if len(x1) != len(x2):
        raise ShapeError(f"{name1} has {len(x1)} rows and {name2} has {len(x2)}; they must be equal")
