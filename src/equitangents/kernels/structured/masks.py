"""Masks after windows, by one of two conventions.

"smaller": what comes out is that of the smaller input itself, for masks that leave the first n' positions along each
axis. Windows without padding are there where their last position is; with zero padding and stride 1 where the position
that they are centred on is; others (`Fitted`) read other positions of a smaller input, since a circle closes earlier,
and the padding of strides depends on the size.
"neural-tangents": every window reads the padded input, zero where a mask leaves nothing, divides by its whole size, and
is there where the position that it is centred on is.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, DType
from equitangents.errors import NetworkError
from equitangents.kernels.branches import flat
from equitangents.kernels.operations import Box
from equitangents.kernels.structured.program import Fitted, StructuredProgram
from equitangents.structured import NEURAL_TANGENTS, SMALLER


def centres(box: Box) -> np.ndarray:
    """The number of the position that each window is centred on, (positions_out,)."""
    axes = []
    for n, out, w, s, low in zip(box.in_shape, box.out_shape, box.window, box.stride, box.low, strict=True):
        at = np.arange(out) * s - low + (w - 1) // 2
        axes.append(at % n if box.wrap else np.clip(at, 0, n - 1))
    return _numbers(axes, box.in_shape)


def deciding(box: Box, convention: str) -> np.ndarray:
    """The position in whose place each window is there or not, (positions_out,)."""
    if convention == NEURAL_TANGENTS or box.is_padded:
        return centres(box)
    return _numbers([np.arange(out) * s + w - 1 for out, w, s in _windows(box)], box.in_shape)


def keeps_windows(box: Box, padding: str) -> bool:
    """Whether the windows of smaller inputs are some of the same windows: all but circles, and padding with strides."""
    return padding == "valid" or (padding == "zero" and all(s == 1 for s in box.stride))


def _windows(box: Box) -> Any:
    return zip(box.out_shape, box.window, box.stride, strict=True)


def _numbers(axes: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.ravel_multi_index(tuple(np.meshgrid(*axes, indexing="ij")), shape)).ravel()


def fitted_windows(op: Fitted, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Windows of each smaller input, for a mask (N, positions): positions (N, out, |S|), which of these
    there are, (N, out, |S|), and which windows, (N, out)."""
    box, count = op.box, len(mask)
    grid = mask.reshape((count, *box.in_shape))
    index: Any = jnp.zeros((count, 1, 1), np.int32)
    reads, there = jnp.ones((count, 1, 1), bool), jnp.ones((count, 1), bool)
    for axis, (n, w, s) in enumerate(zip(box.in_shape, box.window, box.stride, strict=True)):
        others = tuple(i + 1 for i in range(len(box.in_shape)) if i != axis)
        size = grid.any(axis=others).sum(axis=1).astype(np.int32)[:, None, None]
        out: Any = -(-size // s) if op.padding != "valid" else jnp.maximum((size - w) // s + 1, 0)
        low: Any = 0 if op.padding == "valid" else jnp.maximum((out - 1) * s + w - size, 0) // 2
        window = np.arange(box.out_shape[axis], dtype=np.int32)[None, :, None]
        at: Any = s * window - low + np.arange(w, dtype=np.int32)
        inside = (window < out) & (((at >= 0) & (at < size)) | (op.padding == "circular")) & (size > 0)
        at = jnp.where(inside, at % jnp.maximum(size, 1), 0)
        index = _joined(index * n, at, jnp.add)
        reads = _joined(reads, inside, jnp.logical_and)
        exists = (window < out)[..., 0]
        there = (there[:, :, None] & exists[:, None, :]).reshape((count, -1))
    return index, reads, there


def _joined(before: Any, along: Any, how: Any) -> Any:
    """Tables of the axes so far, (N, out, |S|), with those of the next axis."""
    values = how(before[:, :, None, :, None], along[:, None, :, None, :])
    return values.reshape((len(values), before.shape[1] * along.shape[1], -1))


def averages(op: Fitted, mask: jax.Array, dtype: DType) -> tuple[jax.Array, jax.Array]:
    """(positions_out, positions, N) weights of each smaller input's pools, and which pools there are, (N, out)."""
    index, reads, there = fitted_windows(op, mask)
    each = (index[..., None] == np.arange(mask.shape[1])) & reads[..., None]
    weights = each.sum(axis=2).astype(dtype) / np.prod(op.box.window)
    return jnp.moveaxis(weights, 0, -1), there


def check_boxes(name: str, program: StructuredProgram, mask: ArrayLike | None) -> None:
    """Raise NetworkError where the network has windows and a mask leaves more or less than the first positions."""
    if mask is None or program.space.masks != SMALLER or not any(op.reads_sizes for op in flat(program.ops)):
        return
    grid = np.asarray(mask).reshape((len(mask), *program.shape))
    sizes = []
    for axis in range(1, grid.ndim):
        along = grid.any(axis=tuple(i for i in range(1, grid.ndim) if i != axis)).sum(axis=1)
        sizes.append((np.arange(grid.shape[axis]) < along[:, None]).reshape(_place(grid.shape, axis)))
    box: Any = np.ones(grid.shape, bool)
    for along in sizes:
        box = box & along
    wrong = np.flatnonzero((box != grid).reshape((len(grid), -1)).any(axis=1))
    if len(wrong):
        raise NetworkError(
            name,
            int(wrong[0]),
            "masks that leave the first positions along each axis, as windows and pools need",
            "Masked(x, mask, convention='neural-tangents') counts zeros there",
            verb="has another mask at",
        )


def _place(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n if i in (0, axis) else 1 for i, n in enumerate(shape))
