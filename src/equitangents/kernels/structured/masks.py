"""Where masks go: a window's output exists where the position that the window is centred on does."""

from __future__ import annotations

import numpy as np

from equitangents.errors import NetworkError
from equitangents.kernels.program import Box


def centres(box: Box) -> np.ndarray:
    """The number of the position that each window is centred on, (positions_out,)."""
    axes = []
    for n, out, w, s, low in zip(box.in_shape, box.out_shape, box.window, box.stride, box.low, strict=True):
        at = np.arange(out) * s - low + (w - 1) // 2
        axes.append(at % n if box.wrap else np.clip(at, 0, n - 1))
    return np.asarray(np.ravel_multi_index(tuple(np.meshgrid(*axes, indexing="ij")), box.in_shape)).ravel()


def check_windows(masked: bool) -> None:
    """Raise NetworkError where means over windows that are no blocks meet masks."""
    if masked:
        raise NetworkError("AvgPool takes masks where its windows are blocks: stride = window, without padding")
