"""Group convolutions on finite groups, by tables of right translations."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import jax
import numpy as np

from equitangents._types import DType, Params
from equitangents.errors import NetworkError
from equitangents.groups import Group, WallpaperGroup
from equitangents.groups.translation_group import TranslationGroup
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Table
from equitangents.kernels.program import Op
from equitangents.nn.group_windows import ConvolutionSettings, Elements, box_offsets, explicit, profile
from equitangents.nn.layer import Weights
from equitangents.nn.lift import apply_table
from equitangents.nn.zonal_window import ZonalWindow


class TableConvolution:
    """What a GroupConv does on a finite group."""

    def __init__(self, layer: ConvolutionSettings, group: Group) -> None:
        self.layer, self.group = layer, group
        self.elements, self.profile = self._window()
        self.weights = Weights(layer.W_std, layer.b_std)

    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """Elements of the window, and their weights."""
        group = self.group
        if isinstance(self.layer.window, ZonalWindow):
            raise NetworkError(f"a zonal window goes with SO(3) and O(3), not with {group.name}")
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
            raise NetworkError(
                f"window is the box {self.layer.window}; {group.name} has no translations, so give a list or 'full'"
            )
        return chosen, profile(self.layer.weights, len(chosen))

    def _point_elements(self, group: WallpaperGroup) -> list[int]:
        if self.layer.rotations is None:
            return list(range(group.point_order))
        for rotation, reflection in self.layer.rotations:
            if not (0 <= rotation < group.rotations and 0 <= reflection <= group.reflections):
                raise NetworkError(
                    f"rotations holds {(rotation, reflection)}; {group.name} has rotations 0 to {group.rotations - 1} "
                    f"and reflections 0 to {int(group.reflections)}"
                )
        return [reflection * group.rotations + rotation for rotation, reflection in self.layer.rotations]

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
