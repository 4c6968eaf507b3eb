"""Group convolutions: N(f)(g) = W_std/√n Σ_{h∈S} √v(h) κ(h) f(g·h) + b_std · b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, cast

import jax
import numpy as np

from equitangents._types import DType, Params, Tree
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.kernels.operations import Affine
from equitangents.kernels.program import Op
from equitangents.nn.folding import symmetric_box
from equitangents.nn.group_windows import WindowLike, freeze_weights, freeze_window
from equitangents.nn.layer import Layer, check_scale
from equitangents.nn.rotation_conv import RotationConvolution
from equitangents.nn.signal import OnGroup, OnRotations, Positions, Signal
from equitangents.nn.table_conv import TableConvolution
from equitangents.nn.zonal_window import ZonalWindow, ZonalWindowLike, zonal_window
from equitangents.validation import check_whole


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


@singledispatch
def convolution(positions: Positions, layer: GroupConv) -> TableConvolution | RotationConvolution:
    """How a kind of positions is convolved."""
    raise NetworkError(f"GroupConv reads a signal on a group, not one on {positions}; put a Lift before it")


@convolution.register
def _(positions: OnGroup, layer: GroupConv) -> TableConvolution:
    return TableConvolution(layer, positions.group)


@convolution.register
def _(positions: OnRotations, layer: GroupConv) -> RotationConvolution:
    return RotationConvolution(layer, positions.group)


def _freeze_rotations(rotations: Tree) -> tuple[tuple[int, int], ...] | None:
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
