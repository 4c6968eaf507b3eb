"""Checks of arguments; each error has the argument, its value and what is expected."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError

logger = logging.getLogger("equitangents")


def check_array(
    name: str,
    x: Any,
    *,
    rank: int | tuple[int, ...] | None = None,
    min_rank: int = 1,
    shape: tuple[int | None, ...] | None = None,
    allow_empty: bool = False,
) -> Any:
    """`x` as a floating NumPy or JAX array of the given rank and shape, with finite entries.

    Integers become float64; half precision (float16, bfloat16) becomes float32, with a line in the log. Of traced JAX
    arrays only the shape is checked. `None` in `shape` matches any size.
    Raises InvalidTypeError, ShapeError or NotFiniteError for `name`; InvalidArgumentError for masked entries.
    """
    jax = sys.modules.get("jax")  # groups do not load JAX; arrays of JAX have
    plain = type(x) is np.ndarray and x.dtype.kind == "f"  # as it is wanted
    if not plain and (jax is None or not isinstance(x, jax.Array)):
        x = as_rectangular(name, x)
    dtype = np.dtype(x.dtype)
    if dtype.kind in "biu":
        x = x.astype(np.float64) if isinstance(x, np.ndarray) else x.astype(float)
    elif is_half(dtype):
        logger.info("%s has dtype %s; it is converted to float32", name, dtype)
        x = x.astype(np.float32)
    elif dtype.kind != "f":
        raise InvalidTypeError(name, dtype, "real numbers (float32 or float64)", verb="has dtype")
    ranks = (rank,) if isinstance(rank, int) else rank
    if ranks is not None and x.ndim not in ranks:
        raise ShapeError(name, x.ndim, list(ranks), f"its shape is {x.shape}", verb="has rank")
    if x.ndim < min_rank:
        raise ShapeError(name, x.ndim, min_rank, "or more axes", verb="has rank")
    if shape is not None and (
        len(shape) != x.ndim or any(w is not None and w != g for w, g in zip(shape, x.shape, strict=True))
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise ShapeError(name, x.shape, wanted)
    if x.size == 0 and not allow_empty:
        raise ShapeError(name, x.shape, "at least one entry", verb="is empty, of shape")
    known = plain or jax is None or not isinstance(x, jax.core.Tracer)
    if known and np.count_nonzero(np.isfinite(np.asarray(x))) != x.size:  # in half the time of `all`
        bad = np.argwhere(~np.isfinite(np.asarray(x)))[0]
        where = tuple(int(i) for i in bad)
        raise NotFiniteError(name, where, remedy="remove or impute them")
    return x


def as_rectangular(name: str, x: Any) -> np.ndarray:
    """x as a NumPy array; ShapeError if ragged, InvalidTypeError without numbers, InvalidArgumentError if masked."""
    check_unmasked(name, x)
    try:
        array = np.asarray(x)
    except (ValueError, TypeError) as error:
        array, said = None, str(error)
    if array is not None and (array.dtype.kind != "O" or not _holds_arrays(array)):
        return array
    if not isinstance(x, list | tuple | np.ndarray):
        structured = hasattr(x, "adjacency") or hasattr(x, "positions")  # masks and graphs; molecules of any package
        remedy = "give its arrays; net.kernel takes masks and graphs" if structured else ""
        raise InvalidTypeError(name, type(x), "an array of numbers", remedy, verb="is of type")
    shapes = list(dict.fromkeys(_shape(part) for part in x))
    raise ShapeError(
        name,
        shapes[:2] if len(shapes) > 1 else said if array is None else "objects",
        "entries of equal shape",
        "fill smaller entries (molecules, point clouds, sequences) up with zeros",
        verb="is not a rectangular array: it holds",
    )


def check_key(key: Any) -> None:
    """Raise InvalidTypeError unless this is one jax.random key, new-style or a uint32 array.

    >>> import jax
    >>> check_key(jax.random.key(0))
    """
    import jax

    dtype, rank = getattr(key, "dtype", None), np.ndim(key)
    typed = dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    if not (rank == 0 if typed else rank == 1 and dtype == np.uint32):
        raise InvalidTypeError("key", key, "a key, e.g. jax.random.key(0)")


def check_unmasked(name: str, x: Any) -> None:
    """Raise InvalidArgumentError for an array with masked entries; a mask that hides nothing is accepted."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise InvalidArgumentError(
            name,
            tuple(map(int, np.argwhere(np.ma.getmaskarray(x))[0])),
            remedy="fill them, or leave their rows and columns out",
            verb="has masked entries, the first at index",
        )


def _holds_arrays(array: np.ndarray) -> bool:
    return any(isinstance(part, list | tuple) or hasattr(part, "__array__") for part in array.ravel()[:2])


def _shape(part: Any) -> Any:
    try:
        return np.shape(part)
    except ValueError:
        return f"a ragged list of {len(part)}"


def copied(x: Any) -> Any:
    """A writable copy of a NumPy array, with the same memory layout; anything else unchanged."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def is_half(dtype: object) -> bool:
    """Whether a NumPy, JAX or PyTorch dtype has half precision, too few digits to compute with."""
    if isinstance(dtype, np.dtype) and dtype.itemsize != 2:  # its name takes longer
        return False
    return str(dtype).removeprefix("torch.") in ("float16", "bfloat16")


def check_same_length(name1: str, x1: Any, name2: str, x2: Any) -> None:
    """Raise ShapeError unless both arrays have equally many rows."""
    if len(x1) != len(x2):
        raise ShapeError(name1, len(x1), len(x2), f"as many rows as {name2}", verb="has length")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole(name: str, value: Any, least: int, most: int | None = None, wanted: str | None = None) -> int:
    """`value` as an int; InvalidTypeError if it is not a whole number, InvalidArgumentError if it is out of range.

    `wanted`: what errors say is expected, by default the range.

    >>> check_whole("members", 3, 1)
    3
    """
    wanted = wanted or f"a whole number, at least {least}" + ("" if most is None else f" and at most {most}")
    if not is_whole(value):
        raise InvalidTypeError(name, value, wanted)
    if value < least or (most is not None and value > most):
        raise InvalidArgumentError(name, value, wanted)
    return int(value)


def check_number(name: str, value: object, wanted: str, accept: Callable[[Any], bool], at: object = None) -> None:
    """Raise unless `value` (entry `at` of an argument) is finite and `accept` accepts it; `wanted` says what is."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidTypeError(name, value, wanted, at=at)
    if not (math.isfinite(value) and accept(value)):
        raise InvalidArgumentError(name, value, wanted, at=at)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str | None) or value not in tuple(choices):
        raise InvalidArgumentError(name, value, list(choices))


def check_shape(name: str, value: Any) -> tuple[int, ...]:
    """`value` as the shape of one input, (*positions, channels): integers, each at least 1.

    Raises InvalidTypeError if it is no sequence, ShapeError for other sizes, and for none.

    >>> check_shape("input_shape", [8, 8, 1])
    (8, 8, 1)
    """
    try:
        sizes = tuple(value)
    except TypeError:
        raise InvalidTypeError(name, value, "(*positions, channels), e.g. (8, 8, 1)") from None
    if not sizes or not all(is_whole(n) and n > 0 for n in sizes):
        wanted = "(*positions, channels), whole numbers, each at least 1, e.g. (8, 8, 1)"
        raise ShapeError(name, value, wanted, verb="is")
    return tuple(map(int, sizes))
