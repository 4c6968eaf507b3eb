"""Lifts from signals on positions to signals on the group, and convolutions on the group.

Lift       N(f)(g) = W_std/√n Σ_{x∈S} √v(x) κ(x) f(g·x) + b_std · b
GroupConv  N(f)(g) = W_std/√n Σ_{h∈S} √v(h) κ(h) f(g·h) + b_std · b

Finite groups use tables of right translations. Sampled rotations use the Fourier transform of SO(3),
f(R) = Σ_l (2l + 1) Σ_mn F^l_mn D^l_mn(R), with F by quadrature: N(f)(R) = ∫ κ(S) f(RS) dS has the coefficients
Σ_k F^l_mk G^l_nk with G those of the filter. Degrees at or above the group's bandlimit (from nonlinearities) are cut.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, Params, Tree
from equitangents.actions import Action, grid
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.groups import Group, WallpaperGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.wallpaper_group import GridGroup
from equitangents.kernels.operations import FrozenArray, IndexTable
from equitangents.kernels.program import GroupMoves, Op
from equitangents.kernels.rotations import FullMean
from equitangents.nn.conv import symmetric_box
from equitangents.nn.layer import LinearLayer, OnGroup, Signal
from equitangents.nn.sphere_lift import blocks, wigner_basis
from equitangents.validation import is_whole


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
    """The profile `weights` as a tuple of numbers that sum to one."""
    if weights is None:
        return None
    profile = np.asarray(weights, np.float64).ravel()
    if not (profile.size and np.isfinite(profile).all() and (profile >= 0).all() and profile.sum() > 0):
        raise InvalidArgumentError("weights", weights, "finite numbers at least 0, not all 0, one per window element")
    return tuple((profile / profile.sum()).tolist())


def profile(weights: Sequence[float] | np.ndarray | None, count: int) -> Float[np.ndarray, " window"]:
    """The weight of each element of the window, uniform for None."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if len(weights) != count:
        raise NetworkError("weights", len(weights), count, verb="has length")
    return np.array(weights)


def explicit(numbers: Sequence[int], count: int) -> Int[np.ndarray, " window"]:
    """The list of element numbers as a checked array."""
    found = np.array(numbers, np.int64)
    if found.min() < 0 or found.max() >= count:
        raise NetworkError("window", (int(found.min()), int(found.max())), range(count), verb="holds numbers between")
    if len(np.unique(found)) != len(found):
        raise NetworkError("window", numbers, "no element twice", "use weights to count it more")
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


class _OnTable(LinearLayer):
    """A convolution that reads x(index[g, s]) for the elements s of a window."""

    window: Any
    weights: Sequence[float] | np.ndarray | None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "window", freeze_window(self.window))
        object.__setattr__(self, "weights", freeze_weights(self.weights))

    def chosen(self, count: int, torus: tuple[int, ...] | None) -> Int[np.ndarray, " window"]:
        """The elements in the window, numbers below `count`; a box is one of points of the torus."""
        if isinstance(self.window, Elements):
            return explicit(self.window.numbers, count)
        if self.window == "full":
            return np.arange(count)
        if torus is None:
            raise NetworkError("window", self.window, "a list or 'full' where there is no grid of translations")
        return box_offsets(self.window, torus)

    @abc.abstractmethod
    def table(self, signal: Signal) -> tuple[FrozenArray, np.ndarray]:
        """(index (|G|, |S|), the weight v(s) of each element in the window)."""

    @abc.abstractmethod
    def _folds(self, signal: Signal, group: Group) -> bool:
        """Whether rotations map the window, a uniform box in space, to itself."""

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """The window's operation on the grid if it folds, else None."""
        box = symmetric_box(self.window, group) if self.weights is None else None
        return (box, self.scales.affine(signal.channels)) if box and self._folds(signal, group) else None

    def filter_shape(self, signal: Signal) -> tuple[int, ...]:
        """The size of the window, (|S|,)."""
        return (len(self.table(signal)[1]),)

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        index, weights = self.table(signal)
        return (IndexTable(index, FrozenArray(weights)),)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Signals on the group, (N, |G|, channels): W_std/√n Σ_s √v(s) W(s) x(index[:, s]) + b_std · b.

        One window element after another if there are many.
        """
        table, profile = self.table(signal)
        index, x = table.array, x.reshape((x.shape[0], -1, signal.channels))
        w = self.scales.scaled(params, x.shape[-1])
        w = w * np.sqrt(profile).astype(w.dtype)[:, None, None]
        if index.shape[1] * x.shape[-1] <= 1024:
            cut = x[:, index].reshape((x.shape[0] * index.shape[0], -1))
            y = (cut @ w.reshape((-1, w.shape[-1]))).reshape((x.shape[0], index.shape[0], -1))
            return self.scales.add_bias(params, y)

        def add(total: jax.Array, part: tuple[ArrayLike, jax.Array]) -> tuple[jax.Array, None]:
            column, kernel = part
            return total + x[:, column] @ kernel, None

        first = x[:, index[:, 0]] @ w[0]
        y, _ = jax.lax.scan(add, first, (np.ascontiguousarray(index[:, 1:].T), w[1:]))
        return self.scales.add_bias(params, y)


@dataclass(frozen=True)
class Lift(_OnTable):
    """A convolution of a signal with filters transformed by the group.

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
        if isinstance(self.onto, GridGroup):
            object.__setattr__(self, "onto", grid(self.onto))
        if not isinstance(self.onto, Action):
            wanted = "a wallpaper or translation group, or an action that permutes positions"
            raise InvalidTypeError("onto", self.onto, wanted, "such as actions.permutations(G, table)")
        super().__post_init__()

    @property
    def action(self) -> Action:
        """The group's action on positions."""
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

    def signal(self, signal: Signal) -> Signal:
        self.table(signal)
        return Signal(OnGroup(self.action.group), self.channels, gaussian=True)

    def table(self, signal: Signal) -> tuple[FrozenArray, np.ndarray]:
        """index[g, s] = g·s for positions s of the window."""
        points = self._points(signal)
        chosen = self.chosen(signal.positions.count, self.action.group.torus)
        return FrozenArray(points.array[:, chosen]), profile(self.weights, len(chosen))

    @property
    def lifts_to(self) -> Group:  # type: ignore[override]
        return self.action.group

    def _folds(self, signal: Signal, group: Group) -> bool:
        """Whether the group moves position p as it moves grid point p."""
        assert isinstance(group, GridGroup)
        standard = grid(group)
        if self.action == standard:
            return True
        return np.array_equal(self._points(signal).array, _position_table(standard, group.shape).array)

    def group_moves(self, signal: Signal) -> GroupMoves:
        """Moves of positions, x → q·x, and of the group, g → q·g."""
        return GroupMoves(self._points(signal), multiplication_table(self.action.group))


@lru_cache(maxsize=64)
def _position_table(action: Action, shape: tuple[int, ...]) -> FrozenArray:
    table = action.position_table(shape)
    if table is None:
        raise NetworkError("action", action, "an action that permutes positions")
    return FrozenArray(np.asarray(table, np.int32))


@lru_cache(maxsize=64)
def multiplication_table(group: Group) -> FrozenArray:
    """table[a, b] = a·b, with its hash cached."""
    return FrozenArray(np.asarray(group.table, np.int32))


@dataclass(frozen=True)
class GroupConv(_OnTable):
    """A convolution on the group.

    K'(g,g') = W_std² Σ_{h∈S} v(h) K(gh, g'h) + b_std², and Θ' = K' + W_std² Σ_h v(h) Θ(gh, g'h).
    Follows a Lift. `window` S: a centred box of translations (wallpaper and translation groups), combined with all
    rotations and reflections, or only with `rotations` (a number r for the rotation r, a pair (r, f) for r with
    reflection f); a list of group elements; or "full". `weights` v: a profile over S, normalised to sum 1; uniform by
    default. On SO(3) and O(3) the window is "full".
    """

    channels: int
    window: WindowLike = "full"
    rotations: Sequence[int | tuple[int, int]] | None = None
    weights: Sequence[float] | np.ndarray | None = None
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rotations", _freeze_rotations(self.rotations))

    def signal(self, signal: Signal) -> Signal:
        self.window_mean(signal)
        return Signal(signal.positions, self.channels, gaussian=True)

    def filter_shape(self, signal: Signal) -> tuple[int, ...]:
        """(|S|,); on SO(3) (parities, Σ_l (2l + 1)²), one entry for each entry of the D^l."""
        group = _rotations(signal)
        if group is not None:
            return (2 if group.reflections else 1, blocks(group.bandlimit)[-1].stop)
        return super().filter_shape(signal)

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        if _rotations(signal) is None:
            return super().window_mean(signal)
        if self.window != "full" or self.rotations is not None or self.weights is not None:
            raise NetworkError("window", self.window, "'full' on SO(3) and O(3)", "leave rotations and weights out")
        return (FullMean(),)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Convolved signals on the group, (N, |G|, channels)."""
        group = _rotations(signal)
        if group is None:
            return super().apply(params, x, signal)
        root = np.sqrt(degree_dimensions(group.bandlimit)).astype(x.dtype)
        filters = self.scales.scaled(params, x.shape[-1]) / root[:, None, None]
        return self.scales.add_bias(params, convolve_rotations(x, filters, group))

    def table(self, signal: Signal) -> tuple[FrozenArray, np.ndarray]:
        """index[g, s] = g·s for elements s of the window."""
        group = getattr(signal.positions, "group", None)
        if not isinstance(group, Group):
            raise NetworkError("signal", signal.positions, "a signal on a group", "put a Lift before it", verb="is on")
        box = isinstance(group, WallpaperGroup) and isinstance(self.window, tuple)
        if self.rotations is not None and not box:
            raise NetworkError("rotations", self.rotations, "None without a box window on a wallpaper group")
        chosen = self.chosen(group.order, group.torus)
        if isinstance(group, WallpaperGroup) and box:
            chosen = (np.array(self._points(group))[:, None] * math.prod(group.shape) + chosen).ravel()
        return right_translations(group, tuple(chosen.tolist())), profile(self.weights, len(chosen))

    def _points(self, group: WallpaperGroup) -> list[int]:
        """Point-group indices of the window's rotations and reflections."""
        if self.rotations is None:
            return list(range(group.point_order))
        rotations = cast("tuple[tuple[int, int], ...]", self.rotations)
        for rotation, reflection in rotations:
            if not (0 <= rotation < group.rotations and 0 <= reflection <= group.reflections):
                wanted = range(group.rotations), range(int(group.reflections) + 1)
                raise NetworkError("rotations", (rotation, reflection), wanted)
        return [reflection * group.rotations + rotation for rotation, reflection in rotations]

    def _folds(self, signal: Signal, group: Group) -> bool:
        """Whether the window contains all rotations."""
        return self.rotations is None


def _rotations(signal: Signal) -> RotationGroup | None:
    """The rotation group of a signal on sampled rotations, or None."""
    return signal.positions.rotations if isinstance(signal.positions, OnGroup) else None


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


@lru_cache(maxsize=64)
def right_translations(group: Group, elements: tuple[int, ...]) -> FrozenArray:
    """index[g, s] = g · elements[s]."""
    chosen = np.array(elements)
    return FrozenArray(np.asarray(group.compose(np.arange(group.order)[:, None], chosen[None, :]), np.int32))


def convolve_rotations(x: jax.Array, filters: jax.Array, group: RotationGroup) -> jax.Array:
    """Signals (N, order, n) on a rotation group, convolved with filters (parities, Σ_l (2l + 1)², n, channels)."""
    synthesis, analysis = (jnp.asarray(t, x.dtype) for t in _transforms(group))
    parts = jnp.split(x, len(filters), axis=1)  # with reflections: R and -R
    if len(parts) == 2:
        parts = [(parts[0] + parts[1]) / 2, (parts[0] - parts[1]) / 2]
    outputs = []
    for part, G in zip(parts, filters, strict=True):
        F, entries = jnp.einsum("ir,zrc->zic", analysis, part), []
        for l, here in enumerate(blocks(group.bandlimit)):
            side = 2 * l + 1
            f = F[:, here].reshape((len(x), side, side, -1))
            g = G[here].reshape((side, side, *G.shape[1:]))
            entries.append(jnp.einsum("zmkc,nkcd->zmnd", f, g).reshape((len(x), side * side, -1)))
        outputs.append(jnp.einsum("ri,zid->zrd", synthesis, jnp.concatenate(entries, axis=1)))
    if len(outputs) == 2:
        even, odd = outputs
        outputs = [even + odd, even - odd]
    return jnp.concatenate(outputs, axis=1)


def degree_dimensions(bandlimit: int) -> np.ndarray:
    """2l + 1 for each entry of the D^l."""
    return np.concatenate([np.full((2 * l + 1) ** 2, 2 * l + 1) for l in range(bandlimit)])


@lru_cache(maxsize=8)
def _transforms(group: RotationGroup) -> tuple[np.ndarray, np.ndarray]:
    """(matrix from coefficients F to values, its inverse by quadrature) on the group's rotations of determinant 1."""
    proper = RotationGroup(group.bandlimit, reflections=False)
    D = wigner_basis(proper, group.bandlimit)
    return D * degree_dimensions(group.bandlimit), (D * proper.weights[:, None]).T
