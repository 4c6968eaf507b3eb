"""Roto-translations folded onto the grid: the shortcut of arXiv 2406.06504, Theorem 5.3.

If every window is a box that the rotations (and reflections) map to itself, with all of them in it, then a fibre's
field on the group does not depend on the rotation: at g = (r, t) each layer averages over t + u with u in the box,
whatever r. The group-convolutional kernel is then that of the ordinary convolutional network on the torus, with the
second input moved by all elements of the group: |G| fields of H·W entries in place of |G| fields of |G|. With
translations alone it is the ordinary network itself.
"""

from __future__ import annotations

import numpy as np

from equitangents.groups import Group, TranslationGroup, WallpaperGroup
from equitangents.kernels.program import Branch, FrozenArray, GroupFibres, Op, Pool
from equitangents.nn.dense import Dense
from equitangents.nn.group_conv import GroupConv
from equitangents.nn.group_pool import GroupPool
from equitangents.nn.layer import Layer
from equitangents.nn.lift import Lift
from equitangents.nn.nonlinearities import Identity, Nonlinearity
from equitangents.nn.patches import Window
from equitangents.nn.pooling import Flatten
from equitangents.nn.residual import Residual
from equitangents.nn.signal import Signal


def fold(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> tuple[tuple[Op, ...], GroupFibres | None] | None:
    """(operations on the grid, how the group moves it), or None where the theorem's conditions do not hold.

    With a flattening readout only the identity's fibre is asked for, which is the ordinary network's.
    """
    found = [(layer, signal) for layer, signal in zip(layers, signals, strict=False) if isinstance(layer, Lift)]
    if not found or not isinstance(found[0][0].action.group, WallpaperGroup | TranslationGroup):
        return None
    lift, signal = found[0]
    group = lift.action.group
    ops = _fold(layers, signals, group)
    if ops is None:
        return None
    if _point_order(group) == 1 or not any(isinstance(layer, GroupPool) for layer in layers):
        return ops, None
    points = lift.fibres(signal).points
    return ops, GroupFibres(points, points, folded=_point_order(group))


def _point_order(group: Group) -> int:
    return group.point_order if isinstance(group, WallpaperGroup) else 1


def _fold(layers: tuple[Layer, ...], signals: tuple[Signal, ...], group: Group) -> tuple[Op, ...] | None:
    ops: list[Op] = []
    for layer, signal in zip(layers, signals, strict=False):
        folded = _fold_layer(layer, signal, group)
        if folded is None:
            return None
        ops.extend(folded)
    return tuple(ops)


def _fold_layer(layer: Layer, signal: Signal, group: Group) -> tuple[Op, ...] | None:
    assert isinstance(group, WallpaperGroup | TranslationGroup)
    if isinstance(layer, Lift | GroupConv):
        if not _is_symmetric(layer, group):
            return None
        _, affine = layer.lower(signal)
        return (Window(layer.window, 1, "circular").box(group.shape), affine)
    if isinstance(layer, GroupPool):
        everything = FrozenArray(np.zeros(group.shape, np.int32).ravel())
        return (Pool(everything, 1),) if layer.subgroup is None else None
    if isinstance(layer, Residual):
        inner = _fold(layer.layers, layer.signals(signal), group)
        return None if inner is None else (Branch(inner),)
    return layer.lower(signal) if isinstance(layer, Dense | Nonlinearity | Identity | Flatten) else None


def _is_symmetric(layer: Lift | GroupConv, group: Group) -> bool:
    """A uniform box that the point group maps to itself, with all rotations and reflections."""
    window = layer.window
    uniform = layer.weights is None and getattr(layer, "rotations", None) is None
    if not (uniform and isinstance(window, tuple)):
        return False
    if _point_order(group) == 1:
        return True
    square = len(set(window)) == 1 or (isinstance(group, WallpaperGroup) and group.rotations < 4)
    return square and all(w % 2 for w in window)
