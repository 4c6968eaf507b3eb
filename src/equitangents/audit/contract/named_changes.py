"""Changes of inputs that are known by name: of sound and series (N, T) or (N, T, C), and of images (N, H, W, C).

| name | strength | at strength s |
|---|---|---|
| gain | factor | s·x |
| brightness | factor | s·x, cut off where the data end, if they lie from 0 to 1 or to 255 |
| contrast | factor | every input about its own mean, m + s·(x − m), cut off likewise |
| offset | amount | x + s |
| speed | factor | played s times as fast: x(s·t), linearly interpolated; what comes after the end is 0 |
| shift | steps | moved by s steps along time (of images, to the right); what moves in is 0, what moves out is lost |
| scale | factor | images magnified about their centre by s, splines of order 1; outside is 0 |
| crop | share | the middle of images, s of each side, brought back to the full size |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equitangents.audit.contract.layouts import Layout, from_last, to_last
from equitangents.errors import InvalidArgumentError, ShapeError

Change = Callable[[np.ndarray, float], np.ndarray]


def gain(x: np.ndarray, s: float) -> np.ndarray:
    """Every number times s."""
    return x * s


def brightness(x: np.ndarray, s: float) -> np.ndarray:
    """Every number times s, cut off at 1 or 255."""
    return _cut(x * s, x)


def contrast(x: np.ndarray, s: float) -> np.ndarray:
    """The distance from every input's own mean times s."""
    mean = x.mean(axis=tuple(range(1, x.ndim)), keepdims=True)
    return _cut(mean + s * (x - mean), x)


def offset(x: np.ndarray, s: float) -> np.ndarray:
    """The number s added to every number."""
    return x + s


def speed(x: np.ndarray, s: float) -> np.ndarray:
    """Series played s times as fast."""
    if s < 0:
        raise InvalidArgumentError("speed", s, "a factor that is not negative")
    if x.ndim not in (2, 3):
        raise ShapeError("x", x.shape, "series (N, T) or (N, T, C), of which speed changes")
    T = x.shape[1]
    at = s * np.arange(T)
    return np.where(_along(at <= T - 1, 1, x), _interpolated(x, np.clip(at, 0, T - 1), 1), 0)


def shift(x: np.ndarray, s: float) -> np.ndarray:
    """Signals moved by s whole steps, zeros in their place."""
    if s != round(s):
        raise InvalidArgumentError("shift", s, "whole steps")
    axis, k = (2 if x.ndim == 4 else 1), round(s)
    y = np.zeros_like(x)
    n = x.shape[axis]
    if abs(k) >= n:
        return y
    to, of = (slice(k, n), slice(0, n - k)) if k >= 0 else (slice(0, n + k), slice(-k, n))
    before = (slice(None),) * axis
    y[(*before, to)] = x[(*before, of)]
    return y


def scale(x: np.ndarray, s: float) -> np.ndarray:
    """Images magnified about their centre."""
    if not s > 0:
        raise InvalidArgumentError("scale", s, "a factor above 0")
    if x.ndim != 4:
        raise ShapeError("x", x.shape, "images (N, H, W, C), which scale and crop change")
    for axis in (1, 2):
        n = x.shape[axis]
        at = (np.arange(n) - (n - 1) / 2) / s + (n - 1) / 2
        inside = (at >= -1e-9) & (at <= n - 1 + 1e-9)
        x = _interpolated(x, np.clip(at, 0, n - 1), axis) * _along(inside, axis, x)
    return x


def _interpolated(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    """x at places between 0 and n − 1 along an axis, linear between neighbours."""
    n = x.shape[axis]
    low = np.minimum(np.floor(at).astype(int), max(n - 2, 0))
    part, high = _along(at - low, axis, x), np.minimum(low + 1, n - 1)
    return np.take(x, low, axis=axis) * (1 - part) + np.take(x, high, axis=axis) * part


def _along(values: np.ndarray, axis: int, x: np.ndarray) -> np.ndarray:
    """Values along one axis of x, shaped to meet all of it."""
    return values.reshape([-1 if k == axis else 1 for k in range(x.ndim)])


def crop(x: np.ndarray, s: float) -> np.ndarray:
    """The middle of images at the full size."""
    if not 0 < s <= 1:
        raise InvalidArgumentError("crop", s, "a share of each side above 0, at most 1")
    return scale(x, 1 / s)


CHANGES: dict[str, tuple[Change, float]] = {
    "gain": (gain, 1.0),
    "brightness": (brightness, 1.0),
    "contrast": (contrast, 1.0),
    "offset": (offset, 0.0),
    "speed": (speed, 1.0),
    "shift": (shift, 0.0),
    "scale": (scale, 1.0),
    "crop": (crop, 1.0),
}
"""By name: the change, and the strength at which nothing changes."""
HAVE_PLACES = ("speed", "shift", "scale", "crop")
"""Changes that need to know where channels are."""


def of_layout(change: Change, layout: Layout | None) -> Change:
    """The change of arrays whose channels are where `layout` says."""

    def changed(x: np.ndarray, s: float) -> np.ndarray:
        given = layout if x.ndim > 2 else None
        return from_last(change(to_last(x, given), s), given)

    return changed


def _cut(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Within 0 to 1, or 0 to 255, if x is."""
    low, high = float(x.min(initial=0)), float(x.max(initial=0))
    if low < 0 or high > 255:
        return y
    return np.clip(y, 0, 1 if high <= 1 else 255)
