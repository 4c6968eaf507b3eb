"""Kernels of many inputs in blocks, so that what is held at a time stays small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.validation import check_whole


def batch(
    kernel_fn: Callable[..., Any], batch_size: int = 0, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Any]:
    """kernel_fn in blocks of `batch_size` inputs of each side; 0 is all at once.

    Kernels of `equitangents` go in blocks by themselves, so that this is for functions of one's own. All run on one
    device, whatever `device_count` says. The number of inputs need not be a multiple of `batch_size`.
    """
    size = check_whole("batch_size", batch_size, 0)
    if device_count not in (-1, 0, 1):
        raise NotImplementedError(
            f"device_count={device_count} is not here; large kernels are spread by scale.GramStore"
        )

    def batched(x1: Any, x2: Any = None, *args: Any, **keywords: Any) -> Any:
        if not size or (len(x1) <= size and (x2 is None or len(x2) <= size)):
            return kernel_fn(x1, x2, *args, **keywords)
        for name in ("pattern",):
            if keywords.get(name) is not None:
                raise NotImplementedError(f"batch does not cut {name}; give Graphs in place of x")
        other = x1 if x2 is None else x2
        rows = []
        for i in range(0, len(x1), size):
            row = []
            for j in range(0, len(other), size):
                same = x2 is None and i == j
                row.append(kernel_fn(x1[i : i + size], None if same else other[j : j + size], *args, **keywords))
            rows.append(row)
        return _assembled(rows)

    return batched


def _assembled(rows: list[list[Any]]) -> Any:
    """One kernel, or one named tuple of kernels, of the blocks."""
    first = rows[0][0]
    if hasattr(first, "_fields"):
        if any(name in first._fields for name in ("cov1", "cov2")):
            raise InvalidArgumentError("batch joins kernels between inputs: ask for get=('nngp', 'ntk')")
        return type(first)(*(_assembled([[getattr(b, f) for b in row] for row in rows]) for f in first._fields))
    xp = jnp if isinstance(first, jax.Array) else np
    return xp.concatenate([xp.concatenate(row, axis=1) for row in rows], axis=0)
