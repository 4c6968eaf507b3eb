"""From signals on positions that a group moves to signals on the group, and convolutions there.

Lift       N(f)(g) = W_std/√n Σ_{x∈S} √v(x) κ(x) f(g·x) + b_std · b
GroupConv  N(f)(g) = W_std/√n Σ_{h∈S} √v(h) κ(h) f(g·h) + b_std · b

On finite groups by tables of right translations. On sampled rotations by the Fourier transform of SO(3),
f(R) = Σ_l (2l + 1) Σ_mn F^l_mn D^l_mn(R), with F by quadrature; N(f)(R) = ∫ κ(S) f(RS) dS has the coefficients
Σ_k F^l_mk G^l_nk, G those of the filter. Degrees from the group's bandlimit on, which nonlinearities make, are cut.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.actions import Action, grid
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.groups import Group, WallpaperGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.wallpaper_group import TranslationGroup
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Table
from equitangents.kernels.program import GroupFibres, Op
from equitangents.kernels.rotations.program import RotationOp
from equitangents.nn.layer import Layer, Weights, check_scale
from equitangents.nn.patches import symmetric_box
from equitangents.nn.signal import OnGroup, OnRotations, Positions, Signal
from equitangents.nn.sphere_lift import ZonalWindow, ZonalWindowLike, blocks, rotation_root, wigner_basis, zonal_window
from equitangents.validation import check_whole, is_whole


@dataclass(frozen=True)
class Elements:
    """An explicit list of element or position numbers."""

    numbers: tuple[int, ...]


WindowLike = str | Sequence[int] | np.ndarray | Elements
"""A box of sizes (a tuple), a list of numbers of elements, or "full"."""


def freeze_window(window: WindowLike) -> str | tuple[int, ...] | Elements:
    """Hashable form of a window: "full", a box (a tuple), or an explicit list."""
    if isinstance(window, Elements) or (isinstance(window, str) and window == "full"):
        return window
    if isinstance(window, tuple) and window and all(is_whole(w) for w in window):
        return tuple(int(w) for w in window)
    if isinstance(window, list | np.ndarray | range):
        numbers = list(window)
        if numbers and all(is_whole(w) for w in numbers):
            return Elements(tuple(int(w) for w in numbers))
    raise InvalidTypeError(
        "window", window, "'full', a box as a tuple of sizes such as (3, 3), or a list of element numbers"
    )


def freeze_weights(weights: Sequence[float] | np.ndarray | None) -> tuple[float, ...] | None:
    """A profile as a tuple of numbers that sum to one."""
    if weights is None:
        return None
    profile = np.asarray(weights, np.float64).ravel()
    if not (profile.size and np.isfinite(profile).all() and (profile >= 0).all() and profile.sum() > 0):
        raise InvalidArgumentError(
            "weights must be finite, at least zero, and not all zero: one for each window element"
        )
    return tuple((profile / profile.sum()).tolist())


def profile(weights: Sequence[float] | np.ndarray | None, count: int) -> Float[np.ndarray, " window"]:
    """The weight of each of the window's elements, uniform if none are given."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if len(weights) != count:
        raise NetworkError("weights", len(weights), count, verb="has length")
    return np.array(weights)


def explicit(numbers: Sequence[int], count: int, what: str) -> Int[np.ndarray, " window"]:
    """A list of element numbers, checked."""
    found = np.array(numbers, np.int64)
    if found.min() < 0 or found.max() >= count:
        raise NetworkError("window", (int(found.min()), int(found.max())), range(count), verb="holds numbers between")
    if len(np.unique(found)) != len(found):
        raise NetworkError("window names an element twice; use weights to count it more")
    return found


def box_offsets(window: tuple[int, ...], shape: tuple[int, ...]) -> Int[np.ndarray, " window"]:
    """Row-major indices of the grid points of a centred box about the origin of a torus (low side (w - 1) // 2)."""
    if len(window) != len(shape):
        raise NetworkError("window", window, "one size for each dimension of the grid")
    if any(not 1 <= w <= n for w, n in zip(window, shape, strict=True)):
        raise NetworkError("window", window, "sizes from 1 to that of the grid")
    ranges = [[(u - (w - 1) // 2) % n for u in range(w)] for w, n in zip(window, shape, strict=True)]
    points = np.array(list(itertools.product(*ranges)))
    return np.ravel_multi_index(tuple(points.T), shape)


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


@dataclass(frozen=True)
class GroupConv(Layer):
    """A convolution on the group.

    K'(g,g') = W_std² Σ_{h∈S} v(h) K(gh, g'h) + b_std², and Θ' = K' + W_std² Σ_h v(h) Θ(gh, g'h).
    Follows a Lift. `window` S: a centred box of translations (wallpaper and translation groups) with all rotations and
    reflections, or with those of `rotations` alone (a number r for the rotation r, a pair (r, f) for r with reflection
    f); a list of group elements; or "full". `weights` v: a profile over S, normalised to sum 1; uniform by default.
    On SO(3) and O(3) a window is "full" or zonal, v(n·hn) with n the pole: a profile or Legendre coefficients as of
    `SphereLift`, the latter as a ZonalWindow.
    """

    channels: int
    window: WindowLike | ZonalWindowLike = "full"
    rotations: Sequence[int | tuple[int, int]] | None = None
    weights: Sequence[float] | np.ndarray | None = None
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_whole("channels", self.channels, 1)
        if callable(self.window) or isinstance(self.window, ZonalWindow):
            object.__setattr__(self, "window", zonal_window(self.window))
        else:
            object.__setattr__(self, "window", freeze_window(cast(WindowLike, self.window)))
        object.__setattr__(self, "weights", freeze_weights(self.weights))
        object.__setattr__(self, "rotations", _freeze_rotations(self.rotations))
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    def signal(self, signal: Signal) -> Signal:
        """A Gaussian field on the same group."""
        convolution(signal.positions, self)
        return Signal(signal.positions, self.channels, gaussian=True)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (|S|, n, channels), b (channels,); on SO(3) w has one row for each entry of the D^l."""
        return convolution(signal.positions, self).init(key, signal.channels, dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Convolved signals on the group, (N, |G|, channels)."""
        return convolution(signal.positions, self).apply(params, x)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """Mean over the window, then weights and bias."""
        return convolution(signal.positions, self).lower()

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """A window on the grid, if it is a uniform box that the rotations map to itself, with all of them in it."""
        uniform = self.weights is None and self.rotations is None
        box = symmetric_box(self.window, group) if uniform else None
        return None if box is None else (box, Affine(self.W_std**2, self.b_std**2))


def _freeze_rotations(rotations: Tree) -> tuple[tuple[int, int], ...] | None:
    if rotations is None:
        return None
    try:
        pairs = tuple((int(r[0]), int(r[1])) if np.ndim(r) else (int(r), 0) for r in rotations)
    except (TypeError, ValueError, IndexError):
        raise InvalidTypeError("rotations", rotations, "rotation numbers or (rotation, reflection)") from None
    if not pairs or len(set(pairs)) != len(pairs):
        raise NetworkError("rotations", rotations, "different rotations, at least one")
    return pairs


class TableConvolution:
    """The operations of GroupConv on a finite group."""

    def __init__(self, layer: GroupConv, group: Group) -> None:
        self.layer, self.group = layer, group
        self.elements, self.profile = self._window()
        self.weights = Weights(layer.W_std, layer.b_std)

    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """Elements of the window, and their weights."""
        group = self.group
        if isinstance(self.layer.window, ZonalWindow):
            raise NetworkError("group", group, "SO(3) or O(3) with a zonal window")
        if self.layer.rotations is not None and not (
            isinstance(group, WallpaperGroup) and isinstance(self.layer.window, tuple)
        ):
            raise NetworkError("rotations= goes with a box window on a wallpaper group")
        if isinstance(self.layer.window, Elements):
            chosen = explicit(self.layer.window.numbers, group.order, "elements")
        elif self.layer.window == "full":
            chosen = np.arange(group.order)
        elif isinstance(group, WallpaperGroup):
            points = np.array(self._point_elements(group))
            translations = box_offsets(cast("tuple[int, ...]", self.layer.window), group.shape)
            chosen = (points[:, None] * (group.shape[0] * group.shape[1]) + translations).ravel()
        elif isinstance(group, TranslationGroup):
            chosen = box_offsets(cast("tuple[int, ...]", self.layer.window), group.shape)
        else:
            raise NetworkError("window", self.layer.window, "a list or 'full' on a group without translations")
        return chosen, profile(self.layer.weights, len(chosen))

    def _point_elements(self, group: WallpaperGroup) -> list[int]:
        if self.layer.rotations is None:
            return list(range(group.point_order))
        rotations = cast("tuple[tuple[int, int], ...]", self.layer.rotations)
        for rotation, reflection in rotations:
            if not (0 <= rotation < group.rotations and 0 <= reflection <= group.reflections):
                raise NetworkError(
                    "rotations", (rotation, reflection), (range(group.rotations), range(int(group.reflections) + 1))
                )
        return [reflection * group.rotations + rotation for rotation, reflection in rotations]

    @property
    def _index(self) -> FrozenArray:
        return right_translations(self.group, tuple(self.elements.tolist()))

    def init(self, key: jax.Array, channels: int, dtype: DType) -> Params:
        """w (|S|, n, channels), b (channels,)."""
        shape = (len(self.elements), channels, self.layer.channels)
        return self.weights.init(key, shape, (self.layer.channels,), dtype)

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        """Convolved signals on the group, (N, |G|, channels)."""
        return apply_table(self.weights, params, x, self._index.array, self.profile)

    def lower(self) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        affine = Affine(self.weights.W_std**2, self.weights.b_std**2)
        return (Table(self._index, FrozenArray(self.profile)), affine)


@lru_cache(maxsize=64)
def right_translations(group: Group, elements: tuple[int, ...]) -> FrozenArray:
    """index[g, s] = g · elements[s]."""
    chosen = np.array(elements)
    return FrozenArray(np.asarray(group.compose(np.arange(group.order)[:, None], chosen[None, :]), np.int32))


class RotationConvolution:
    """The operations of GroupConv on SO(3) and O(3)."""

    def __init__(self, layer: GroupConv, group: RotationGroup) -> None:
        if layer.rotations is not None or layer.weights is not None:
            raise NetworkError(
                "window", layer.window, "'full' or a profile on SO(3) and O(3)", "leave rotations and weights out"
            )
        self.group = group
        self.channels = layer.channels
        if isinstance(layer.window, tuple | Elements):
            raise NetworkError("window", layer.window, "'full', a profile or a ZonalWindow on SO(3) and O(3)")
        self.window = zonal_window(cast(ZonalWindowLike, layer.window))
        self.weights = Weights(layer.W_std, layer.b_std)

    def init(self, key: jax.Array, channels: int, dtype: DType) -> Params:
        """w (parities, Σ_l (2l + 1)², n, channels), b (channels,)."""
        entries = blocks(self.group.bandlimit)[-1].stop
        shape = (2 if self.group.reflections else 1, entries, channels, self.channels)
        return self.weights.init(key, shape, (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        """Convolved signals at the group's rotations, (N, order, channels)."""
        synthesis, analysis = (jnp.asarray(t, x.dtype) for t in _transforms(self.group))
        G = self.weights.scaled(params, x.shape[-1])
        root = rotation_root(self.window, self.group.bandlimit)
        G = jnp.einsum("ij,sjcd->sicd", jnp.asarray(root, x.dtype), G)
        parts = jnp.split(x, len(G), axis=1)  # with reflections: R and -R
        if len(parts) == 2:
            parts = [(parts[0] + parts[1]) / 2, (parts[0] - parts[1]) / 2]
        outputs = [self._convolve(part, g, synthesis, analysis) for part, g in zip(parts, G, strict=True)]
        if len(outputs) == 2:
            even, odd = outputs
            outputs = [even + odd, even - odd]
        return self.weights.add_bias(params, jnp.concatenate(outputs, axis=1))

    def _convolve(self, x: jax.Array, G: jax.Array, synthesis: jax.Array, analysis: jax.Array) -> jax.Array:
        F = jnp.einsum("ir,zrc->zic", analysis, x)
        entries = []
        for l, here in enumerate(blocks(self.group.bandlimit)):
            side = 2 * l + 1
            f = F[:, here].reshape((len(x), side, side, -1))
            g = G[here].reshape((side, side, *G.shape[1:]))
            entries.append(jnp.einsum("zmkc,nkcd->zmnd", f, g).reshape((len(x), side * side, -1)))
        return jnp.einsum("ri,zid->zrd", synthesis, jnp.concatenate(entries, axis=1))

    def lower(self) -> tuple[RotationOp, ...]:
        """Mean over the window, then weights and bias."""
        return (self.window.op, Affine(self.weights.W_std**2, self.weights.b_std**2))


@lru_cache(maxsize=8)
def _transforms(group: RotationGroup) -> tuple[np.ndarray, np.ndarray]:
    """(from coefficients F to values, from values to coefficients) on the proper rotations of a group."""
    proper = RotationGroup(group.bandlimit, reflections=False)
    D = wigner_basis(proper, group.bandlimit)
    dimension = np.concatenate([np.full((2 * l + 1) ** 2, 2 * l + 1) for l in range(group.bandlimit)])
    return D * dimension, (D * proper.weights[:, None]).T


@singledispatch
def convolution(positions: Positions, layer: GroupConv) -> TableConvolution | RotationConvolution:
    """The convolution for a kind of positions."""
    raise NetworkError("signal", positions, "a signal on a group", "put a Lift before it", verb="is on")


@convolution.register
def _(positions: OnGroup, layer: GroupConv) -> TableConvolution:
    return TableConvolution(layer, positions.group)


@convolution.register
def _(positions: OnRotations, layer: GroupConv) -> RotationConvolution:
    return RotationConvolution(layer, positions.group)
