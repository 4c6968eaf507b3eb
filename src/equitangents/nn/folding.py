"""Roto-translations folded onto the grid: the shortcut of arXiv 2406.06504, Theorem 5.3.

If every window is a box that the rotations (and reflections) map to itself, with all of them in it, then a fibre's
field on the group does not depend on the rotation: at g = (r, t) each layer averages over t + u with u in the box,
whatever r. The group-convolutional kernel is then that of the ordinary convolutional network on the torus, with the
second input moved by all elements of the group: |G| fields of H·W entries in place of |G| fields of |G|. With
translations alone it is the ordinary network itself.
"""

from __future__ import annotations

import math

from equitangents.groups import Group
from equitangents.kernels.operations import Box
from equitangents.kernels.program import GroupFibres, Op
from equitangents.nn.layer import Layer
from equitangents.nn.patches import Window
from equitangents.nn.signal import Signal


def fold(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> tuple[tuple[Op, ...], GroupFibres | None] | None:
    """(operations on the grid, how the group moves it), or None where the theorem's conditions do not hold.

    With a flattening readout only the identity's fibre is asked for, which is the ordinary network's.
    """
    lifts = [(layer, signal) for layer, signal in zip(layers, signals, strict=False) if layer.lifts_to is not None]
    if not lifts:
        return None
    lift, signal = lifts[0]
    group = lift.lifts_to
    if not isinstance(group, Group) or group.torus is None:
        return None
    ops = fold_layers(layers, signals, group)
    if ops is None:
        return None
    turns = group.order // math.prod(group.torus)
    if turns == 1 or not any(op.is_pool and not op.is_diagonal for op in ops):
        return ops, None
    fibres = lift.fibres(signal)
    if not isinstance(fibres, GroupFibres):
        return None
    return ops, GroupFibres(fibres.points, fibres.points, folded=turns)


def fold_layers(layers: tuple[Layer, ...], signals: tuple[Signal, ...], group: Group) -> tuple[Op, ...] | None:
    """Operations of all `layers` on the grid, or None if one of them does not fold."""
    ops: list[Op] = []
    for layer, signal in zip(layers, signals, strict=False):
        folded = layer.fold(signal, group)
        if folded is None:
            return None
        ops.extend(folded)
    return tuple(ops)


def symmetric_box(window: object, group: Group) -> Box | None:
    """The box `window` on the group's grid if rotations and reflections map it to itself; None otherwise."""
    if group.torus is None or not isinstance(window, tuple):
        return None
    if group.order > math.prod(group.torus):
        square = len(set(window)) == 1 or not group.turns_quarters
        if not (square and all(w % 2 for w in window)):
            return None
    return Window(window, 1, "circular").box(group.torus)
