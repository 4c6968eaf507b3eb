"""Group convolutions: N(f)(g) = W_std/√n Σ_{h∈S} √v(h) κ(h) f(g·h) + b_std · b."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.groups import Group, TranslationGroup, WallpaperGroup
from equitangents.kernels.program import Affine, FrozenArray, Op, Table
from equitangents.nn.group_windows import Elements, box_offsets, explicit, freeze_weights, freeze_window, profile
from equitangents.nn.layer import Layer, Weights, check_count, check_scale
from equitangents.nn.lift import apply_table
from equitangents.nn.signal import OnGroup, Signal


@dataclass(frozen=True)
class GroupConv(Layer):
    """K'(g,g') = W_std² Σ_{h∈S} v(h) K(gh, g'h) + b_std², and Θ' = K' + W_std² Σ_h v(h) Θ(gh, g'h).

    Follows a Lift. `window` S: a centred box of translations (wallpaper and translation groups) with all rotations and
    reflections, or with those of `rotations` alone (a number r for the rotation r, a pair (r, f) for r with reflection
    f); a list of group elements; or "full". `weights` v: a profile over S, normalised to sum 1; uniform by default.
    """

    channels: int
    window: Any = "full"
    rotations: Any = None
    weights: Any = None
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_count("channels", self.channels)
        object.__setattr__(self, "window", freeze_window(self.window))
        object.__setattr__(self, "weights", freeze_weights(self.weights))
        object.__setattr__(self, "rotations", _freeze_rotations(self.rotations))
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    def _group(self, signal: Signal) -> Group:
        if not isinstance(signal.positions, OnGroup):
            raise NetworkError(
                f"GroupConv reads a signal on a group, not one on {signal.positions}; put a Lift before it"
            )
        return signal.positions.group

    def _window(self, signal: Signal) -> tuple[np.ndarray, np.ndarray]:
        """Elements of the window, and their weights."""
        group = self._group(signal)
        if self.rotations is not None and not (isinstance(group, WallpaperGroup) and isinstance(self.window, tuple)):
            raise NetworkError("rotations= goes with a box window on a wallpaper group")
        if isinstance(self.window, Elements):
            chosen = explicit(self.window.numbers, group.order, "elements")
        elif self.window == "full":
            chosen = np.arange(group.order)
        elif isinstance(group, WallpaperGroup):
            points = np.array(self._point_elements(group))
            translations = box_offsets(self.window, group.shape)
            chosen = (points[:, None] * (group.shape[0] * group.shape[1]) + translations).ravel()
        elif isinstance(group, TranslationGroup):
            chosen = box_offsets(self.window, group.shape)
        else:
            raise NetworkError(
                f"window is the box {self.window}; {group.name} has no translations, so give a list or 'full'"
            )
        return chosen, profile(self.weights, len(chosen))

    def _point_elements(self, group: WallpaperGroup) -> list[int]:
        if self.rotations is None:
            return list(range(group.point_order))
        for rotation, reflection in self.rotations:
            if not (0 <= rotation < group.rotations and 0 <= reflection <= group.reflections):
                raise NetworkError(
                    f"rotations holds {(rotation, reflection)}; {group.name} has rotations 0 to {group.rotations - 1} "
                    f"and reflections 0 to {int(group.reflections)}"
                )
        return [reflection * group.rotations + rotation for rotation, reflection in self.rotations]

    def signal(self, signal: Signal) -> Signal:
        """A Gaussian field on the same group."""
        self._window(signal)
        return Signal(signal.positions, self.channels, gaussian=True)

    def init(self, key: jax.Array, signal: Signal, dtype: Any) -> Any:
        """w (|S|, n, channels), b (channels,)."""
        shape = (len(self._window(signal)[0]), signal.channels, self.channels)
        return Weights(self.W_std, self.b_std).init(key, shape, (self.channels,), dtype)

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """(N, |G|, channels)."""
        chosen, weights = self._window(signal)
        index = right_translations(self._group(signal), tuple(chosen.tolist())).array
        return apply_table(Weights(self.W_std, self.b_std), params, x, index, weights)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        chosen, weights = self._window(signal)
        index = right_translations(self._group(signal), tuple(chosen.tolist()))
        return (Table(index, FrozenArray(weights)), Affine(self.W_std**2, self.b_std**2))


def _freeze_rotations(rotations: Any) -> tuple[tuple[int, int], ...] | None:
    if rotations is None:
        return None
    try:
        pairs = tuple((int(r[0]), int(r[1])) if np.ndim(r) else (int(r), 0) for r in rotations)
    except (TypeError, ValueError, IndexError):
        raise InvalidTypeError(
            f"rotations is {rotations!r}; expected rotation numbers or (rotation, reflection)"
        ) from None
    if not pairs or len(set(pairs)) != len(pairs):
        raise NetworkError(f"rotations is {rotations!r}; expected different rotations, at least one")
    return pairs


@lru_cache(maxsize=64)
def right_translations(group: Group, elements: tuple[int, ...]) -> FrozenArray:
    """index[g, s] = g · elements[s]."""
    chosen = np.array(elements)
    return FrozenArray(np.asarray(group.compose(np.arange(group.order)[:, None], chosen[None, :]), np.int32))
