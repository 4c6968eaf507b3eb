"""Lifting: from signals on positions that a group moves to signals on the group itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import jax
import numpy as np

from equitangents._types import ArrayLike, DType, Params
from equitangents.actions import Action, grid
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.groups import Group, WallpaperGroup
from equitangents.groups.wallpaper_group import TranslationGroup
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Table
from equitangents.kernels.program import GroupFibres, Op
from equitangents.nn.folding import symmetric_box
from equitangents.nn.group_windows import (
    Elements,
    WindowLike,
    box_offsets,
    explicit,
    freeze_weights,
    freeze_window,
    profile,
)
from equitangents.nn.layer import Layer, Weights, check_scale
from equitangents.nn.signal import OnGroup, Signal
from equitangents.validation import check_whole


@dataclass(frozen=True)
class Lift(Layer):
    """A convolution of a signal with filters that the group moves.

    N(f)(g) = W_std/√n Σ_{x∈S} √v(x) κ(x) f(g·x) + b_std · b;  K'(g,g') = W_std² Σ_x v(x) K(gx, g'x) + b_std².

    `onto`: a wallpaper or translation group, which moves the points of its grid (input (N, H, W, C)), or an action that
    permutes positions (input (N, P, C)). `window` S: a centred box such as (3, 3) on a grid, a list of position numbers
    (row-major), or "full". `weights` v: a profile over S, normalised to sum 1; uniform by default.
    """

    onto: Group | Action
    channels: int
    window: WindowLike = "full"
    weights: Sequence[float] | np.ndarray | None = None
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.onto, WallpaperGroup | TranslationGroup):
            object.__setattr__(self, "onto", grid(self.onto))
        if not isinstance(self.onto, Action):
            raise InvalidTypeError(
                "onto",
                self.onto,
                "a wallpaper or translation group, or an action that permutes positions",
                "such as actions.permutations(G, table)",
            )
        check_whole("channels", self.channels, 1)
        object.__setattr__(self, "window", freeze_window(self.window))
        object.__setattr__(self, "weights", freeze_weights(self.weights))
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    @property
    def action(self) -> Action:
        """Moves of positions by the group."""
        assert isinstance(self.onto, Action)
        return self.onto

    def _points(self, signal: Signal) -> FrozenArray:
        """points[g, x] = the position g·x."""
        if signal.axes is None:
            raise NetworkError("signal", signal.positions, "positions that the group moves", verb="is on")
        try:
            return _position_table(self.action, signal.array_shape)
        except ShapeError as error:
            raise NetworkError(str(error)) from None

    def _window(self, signal: Signal) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the window, and their weights."""
        count = signal.positions.count
        if isinstance(self.window, Elements):
            chosen = explicit(self.window.numbers, count, "positions")
        elif self.window == "full":
            chosen = np.arange(count)
        elif self.action.group.torus is not None:
            chosen = box_offsets(cast("tuple[int, ...]", self.window), self.action.group.torus)
        else:
            raise NetworkError("window", self.window, "a list or 'full' where an action has no grid")
        return chosen, profile(self.weights, len(chosen))

    def signal(self, signal: Signal) -> Signal:
        """One Gaussian field on the group."""
        self._points(signal)
        self._window(signal)
        return Signal(OnGroup(self.action.group), self.channels, gaussian=True)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (|S|, n, channels), b (channels,)."""
        shape = (len(self._window(signal)[0]), signal.channels, self.channels)
        return Weights(self.W_std, self.b_std).init(key, shape, (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Signals on the group, (N, |G|, channels)."""
        chosen, weights = self._window(signal)
        index = self._points(signal).array[:, chosen]
        flat = x.reshape((x.shape[0], -1, signal.channels))
        return apply_table(Weights(self.W_std, self.b_std), params, flat, index, weights)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        chosen, weights = self._window(signal)
        index = FrozenArray(self._points(signal).array[:, chosen].astype(np.int32))
        return (Table(index, FrozenArray(weights)), Affine(self.W_std**2, self.b_std**2))

    @property
    def lifts_to(self) -> Group:  # type: ignore[override]
        """The group of the action."""
        return self.action.group

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """A window on the grid, if it is a uniform box that the rotations keep and positions are the grid's points."""
        box = None if self.weights is not None else symmetric_box(self.window, group)
        if box is None or not self._on_grid(signal, group):
            return None
        return (box, Affine(self.W_std**2, self.b_std**2))

    def _on_grid(self, signal: Signal, group: Group) -> bool:
        """Whether the action moves position number p as the group moves grid point number p."""
        assert isinstance(group, WallpaperGroup | TranslationGroup)
        standard = grid(group)
        if self.action == standard:
            return True
        return np.array_equal(self._points(signal).array, _position_table(standard, group.shape).array)

    def fibres(self, signal: Signal) -> GroupFibres:
        """Moves of positions, x → q·x, and of the group, g → q·g."""
        return GroupFibres(self._points(signal), multiplication_table(self.action.group))


def apply_table(
    weights: Weights, params: Params, x: jax.Array, index: np.ndarray, window_weights: np.ndarray
) -> jax.Array:
    """The weighted sum over a window, W_std/√n Σ_s √v(s) W(s) x(index[:, s]) + b_std · b.

    One window element after another if there are many.
    """
    w = params["w"] * (weights.W_std / math.sqrt(x.shape[-1]))
    w = w * np.sqrt(window_weights).astype(w.dtype)[:, None, None]
    if index.shape[1] * x.shape[-1] <= 1024:
        cut = x[:, index].reshape((x.shape[0] * index.shape[0], -1))
        y = (cut @ w.reshape((-1, w.shape[-1]))).reshape((x.shape[0], index.shape[0], -1))
        return weights.add_bias(params, y)

    def add(total: jax.Array, part: tuple[ArrayLike, jax.Array]) -> tuple[jax.Array, None]:
        column, kernel = part
        return total + x[:, column] @ kernel, None

    first = x[:, index[:, 0]] @ w[0]
    y, _ = jax.lax.scan(add, first, (np.ascontiguousarray(index[:, 1:].T), w[1:]))
    return weights.add_bias(params, y)


@lru_cache(maxsize=64)
def _position_table(action: Action, shape: tuple[int, ...]) -> FrozenArray:
    table = action.position_table(shape)
    if table is None:
        raise NetworkError("action", action, "an action that permutes positions")
    return FrozenArray(np.asarray(table, np.int32))


@lru_cache(maxsize=64)
def multiplication_table(group: Group) -> FrozenArray:
    """table[a, b] = a·b, hashed once."""
    return FrozenArray(np.asarray(group.table, np.int32))
