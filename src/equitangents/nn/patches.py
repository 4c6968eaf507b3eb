"""Windows on grids: where they read, and the patches that they cut.

Positions follow `jax.lax`'s SAME rule: an output p reads stride·p - low + u, with low = total // 2 and
total = max((⌈n/stride⌉ - 1)·stride + window - n, 0), for zero and circular padding; "valid" reads inside alone.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.kernels.operations import Box
from equitangents.nn.signal import Signal

PADDINGS = ("circular", "zero", "valid")
Sizes = tuple[int, ...] | int
"""One size for each dimension of a grid, or one for all."""


def check_sizes(name: str, value: Tree) -> Sizes:
    """A positive whole number, or a tuple of them, one for each spatial dimension."""
    parts = value if isinstance(value, tuple | list) else (value,)
    for part in parts:
        if isinstance(part, bool) or not hasattr(part, "__index__"):
            raise InvalidTypeError(name, value, "a whole number or a tuple of them")
        if int(part) < 1:
            raise InvalidArgumentError(name, value, "at least 1 in every dimension")
    return tuple(int(p) for p in parts) if isinstance(value, tuple | list) else int(value)


def per_dimension(name: str, value: Sizes, dimensions: int) -> tuple[int, ...]:
    """`value` for each of the spatial dimensions."""
    if isinstance(value, int):
        return (value,) * dimensions
    if len(value) != dimensions:
        raise NetworkError(name, value, "one size for each dimension of the grid")
    return value


def grid_shape(signal: Signal) -> tuple[int, ...]:
    """The grid that a window needs; raises NetworkError for anything else."""
    positions = signal.positions
    if signal.axes not in (1, 2, 3):
        raise NetworkError("signal", positions, "a grid of 1 to 3 dimensions (N, *grid, channels)", verb="is on")
    return positions.shape


def window_box(window: Sizes, stride: Sizes, padding: str, shape: tuple[int, ...]) -> Box:
    """Where a box that slides over a grid of this shape reads."""
    window, stride = per_dimension("window", window, len(shape)), per_dimension("stride", stride, len(shape))
    if padding == "valid":
        if any(w > n for w, n in zip(window, shape, strict=True)):
            raise NetworkError("window", window, shape, "at most the grid's sizes", verb="with valid padding is")
        out = tuple((n - w) // s + 1 for n, w, s in zip(shape, window, stride, strict=True))
        zero = (0,) * len(shape)
        return Box(shape, out, window, stride, zero, zero, wrap=False)
    out = tuple(-(-n // s) for n, s in zip(shape, stride, strict=True))
    total = [max((o - 1) * s + w - n, 0) for o, s, w, n in zip(out, stride, window, shape, strict=True)]
    low = tuple(t // 2 for t in total)
    high = tuple(t - a for t, a in zip(total, low, strict=True))
    return Box(shape, out, window, stride, low, high, wrap=padding == "circular")


def patches(x: ArrayLike, box: Box) -> jax.Array:
    """(N, *grid, c) to (N, *out, |S|·c): values of each window, positions in row-major order.

    Slices and one matrix product afterwards, rather than a convolution: under `vmap` over an ensemble's members that
    stays a batched matrix product, where a convolution would become a slow grouped one.
    """
    widths = [(0, 0), *zip(box.low, box.high, strict=True), (0, 0)]
    if any(box.low) or any(box.high):
        x = jnp.pad(x, widths, mode="wrap" if box.wrap else "constant")
    pieces = []
    for offset in itertools.product(*map(range, box.window)):
        limits = [u + (n - 1) * s + 1 for u, n, s in zip(offset, box.out_shape, box.stride, strict=True)]
        pieces.append(lax.slice(x, (0, *offset, 0), (x.shape[0], *limits, x.shape[-1]), (1, *box.stride, 1)))
    return jnp.concatenate(pieces, axis=-1) if len(pieces) > 1 else pieces[0]


def taps(box: Box) -> int:
    """The number of positions in the window, |S|."""
    return int(np.prod(box.window))


def symmetric_box(window: object, group: Group) -> Box | None:
    """The box `window` on the group's grid if rotations and reflections map it to itself; None otherwise."""
    if group.torus is None or not isinstance(window, tuple):
        return None
    if group.order > math.prod(group.torus):
        square = len(set(window)) == 1 or not group.turns_quarters
        if not (square and all(w % 2 for w in window)):
            return None
    return window_box(window, 1, "circular", group.torus)
