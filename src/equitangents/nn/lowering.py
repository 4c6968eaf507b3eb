"""Layers one after another, and the program of theirs that engines run.

Roto-translations are folded onto the grid where they can be (arXiv 2406.06504, Theorem 5.3). If every window is a box
that the rotations (and reflections) map to itself, with all of them in it, then the field at a pair offset on the group
does not depend on the rotation: at g = (r, t) each layer averages over t + u with u in the box, whatever r. The
group-convolutional kernel is then that of the ordinary convolutional network on the torus, with the second input moved
by all elements of the group: |G| fields of H·W entries in place of |G| fields of |G|. With translations alone it is the
ordinary network itself.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax

from equitangents._types import DType, Params, Tree
from equitangents.errors import NetworkError, ShapeError
from equitangents.groups import Group
from equitangents.kernels.program import GroupFibres, Op, Positions, Program, field_program, is_structured
from equitangents.kernels.rotations import Sphere
from equitangents.kernels.steerable import Points
from equitangents.kernels.structured import StructuredPositions, structured_program
from equitangents.nn.conv import Dense
from equitangents.nn.layer import Layer, OnRotations, Signal, Signals
from equitangents.nn.pooling import Flatten
from equitangents.nn.readout import Readout
from equitangents.steerable.features import OnPoints, OnWhole
from equitangents.structured import SMALLER


def chain(layers: tuple[Layer, ...], signal: Signal) -> tuple[Signal, ...]:
    """The signals before each layer and after the last."""
    signals = [signal]
    for i, layer in enumerate(layers):
        try:
            if signals[-1].several and not layer.joins:
                raise NetworkError(
                    "it follows a Parallel, whose branches are to be joined first, by Sum or Concatenate"
                )
            if i and layers[i - 1].is_last:
                raise NetworkError(
                    "layers", layers[i - 1], "no layer after it", "its outputs transform with the input", at=i - 1
                )
            if not (layer.joins or layer.steers) and signals[-1].positions.steerable:
                raise NetworkError(
                    "signal",
                    signals[-1].positions,
                    remedy="read it by SteerableConv, SteerableDense, SteerablePool or a steerable nonlinearity",
                )
            signals.append(layer.signal(signals[-1]))
        except NetworkError as error:
            raise NetworkError(f"layer {i}, {layer!r}: {error}") from None
    return tuple(signals)


def init_layers(layers: tuple[Layer, ...], key: jax.Array, signals: tuple[Signals, ...], dtype: DType) -> Params:
    """Parameters, a tuple with one entry per layer, each from its own key."""
    keys = jax.random.split(key, max(1, len(layers)))
    return tuple(layer.init(k, s, dtype) for layer, k, s in zip(layers, keys, signals, strict=False))


def run_layers(
    layers: tuple[Layer, ...], params: Params, x: Tree, structure: Tree, signals: Signals
) -> tuple[Tree, Tree]:
    """(output, structure after it) of layers one after another on a signal with masks, graphs and keys."""
    for i, (layer, p, s) in enumerate(zip(layers, params, signals, strict=False)):
        beside: Tree = tuple(b.within(i) for b in structure) if isinstance(structure, tuple) else structure.within(i)
        x, structure = layer.run(p, x, s, beside)
    return x, structure


def check_entries(name: str, params: Params, layers: tuple[Layer, ...]) -> None:
    """Raise ShapeError unless `params` has one entry for each layer, and so within each branch."""
    if not isinstance(params, tuple | list) or len(params) != len(layers):
        held = f"{len(params)} entries" if isinstance(params, tuple | list) else f"a {type(params).__name__}"
        raise ShapeError(f"{name} is {held}; expected one entry for each of the {len(layers)} layers, as init gives")
    for i, (layer, entry) in enumerate(zip(layers, params, strict=True)):
        if layer.inner and not layer.joins:
            check_entries(f"{name}[{i}]", entry, layer.inner[0])
        elif layer.inner:
            if not isinstance(entry, tuple | list) or len(entry) != len(layer.inner):
                raise ShapeError(f"{name}[{i}] is not one entry for each of the {len(layer.inner)} branches")
            for j, (inner, part) in enumerate(zip(layer.inner, entry, strict=True)):
                check_entries(f"{name}[{i}][{j}]", part, inner)


def draw_noise(layers: tuple[Layer, ...]) -> bool:
    """Whether any of these layers, or of those inside them, draws noise."""
    return any(layer.draws_noise or any(map(draw_noise, layer.inner)) for layer in layers)


@lru_cache(maxsize=256)
def why_no_ntk(layers: tuple[Layer, ...]) -> str | None:
    """Why one of the layers has no neural tangent kernel; None if all have."""
    return next((layer.no_ntk for layer in layers if layer.no_ntk is not None), None)


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


AnyProgram = Program[Any]


def lower(layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None) -> tuple[int, AnyProgram]:
    """(how many leading layers are functions of the input alone, the program of the rest).

    `signals[i]` goes into layer i, and the last comes out, which is to have one position; else raises NetworkError.
    With `masks`, a convention for inputs with masks or graphs, it always runs over all pairs of positions.
    """
    last = layers[-1]
    if isinstance(last, Readout) and masks is None:
        given, flat = lower(*_followed(layers[:-1], signals[:-1], Flatten(), Dense(1, W_std=last.W_std)))
        fibres = layers[given].fibres(signals[given])
        if fibres is None:
            raise NetworkError(
                "layers",
                layers[given],
                "a Lift or SphereLift as the first layer with weights, for kernels before a Readout",
                at=given,
            )
        return given, last.projected(flat, fibres, signals[-2])
    if signals[-1].positions.count != 1 or last.ends_on_points:
        raise NetworkError(
            "output",
            signals[-1].positions,
            "one position",
            "end the network with Flatten, GlobalAvgPool, GroupPool or SteerablePool, or ask for kernel_field",
        )
    given = count_given(layers, signals)
    layers, signals = layers[given:], signals[given:]
    folded = None if masks or signals[-1].positions.steerable else fold(layers, signals)
    if folded is not None:
        ops, fibres = folded
        return given, Program(Positions(signals[0].positions.shape, fibres), ops)
    return given, program_of(layers, signals, masks)


_NO_FIELD: dict[type, str] = {  # why there is no kernel between positions of these
    OnWhole: "the network ends on {end}, so there is no kernel between positions; use kernel() in place of "
    "kernel_field()",
    OnPoints: "a network on steerable features ends with PointFeatures, and has a kernel field, or with SteerablePool: "
    "then ask for kernel",
    OnRotations: "the network ends on {end}; kernel fields are of networks that end on a grid, on a finite group or on "
    "its cosets",
}


@lru_cache(maxsize=256)
def lower_field(
    layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None
) -> tuple[int, AnyProgram]:
    """(number of leading layers without weights, program of the rest), for a kernel field.

    Unfolded: every position of the output is wanted. Raises NetworkError for networks that end on none.
    """
    given, end = count_given(layers, signals), signals[-1].positions
    if layers[-1].ends_on_points:
        return given, program_of(layers[given:-1], signals[given:-1])
    if layers[-1].is_last:
        raise NetworkError(
            "outputs that turn, of a Readout or of steerable features, have no positions: kernel gives them all, "
            "(N1, N2, d, d)"
        )
    if type(end) in _NO_FIELD:
        raise NetworkError(_NO_FIELD[type(end)].format(end=end))
    return given, program_of(layers[given:], signals[given:], masks or None)


def _followed(
    layers: tuple[Layer, ...], signals: tuple[Signal, ...], *more: Layer
) -> tuple[tuple[Layer, ...], tuple[Signal, ...]]:
    """The layers and signals of a network that goes on."""
    for layer in more:
        layers, signals = (*layers, layer), (*signals, layer.signal(signals[-1]))
    return layers, signals


def count_given(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> int:
    """Number of leading layers that are functions of the input."""
    given = 0
    while given < len(layers) and not layers[given].has_weights and signals[given + 1].given:
        given += 1
    return given


def program_of(layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None) -> AnyProgram:
    """The program of layers, without simplification; `signals[i]` goes into layer i."""
    begin, end = signals[0].positions, signals[-1].positions
    if end.steerable:
        if not signals[-1].gaussian:
            raise NetworkError("a nonlinearity of steerable features needs a linear layer after it, SteerableDense")
        assert begin.steerable
        space = Points(begin.count, begin.features, end.features, whole=not begin.on_points, field=end.on_points)
        return Program(space, lowered(layers, signals, masked=False))
    if masks is None:
        ops = lowered(layers, signals, masked=False)
        return (structured_program if is_structured(ops) else field_program)(begin.shape, ops, _lift(layers, signals))
    if any(layer.lifts_to is not None for layer in layers):
        raise NetworkError("networks that lift to a group do not take inputs with missing positions (masks) or graphs")
    return Program(StructuredPositions(begin.shape, masks), lowered(layers, signals, masked=masks == SMALLER))


def _lift(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> GroupFibres | Sphere | None:
    """How the group of the first layer that lifts moves positions; None where none lifts."""
    pairs = zip(layers, signals, strict=False)
    return next((found for layer, signal in pairs if (found := layer.fibres(signal)) is not None), None)


def lowered(layers: tuple[Layer, ...], signals: tuple[Signal, ...], *, masked: bool) -> tuple[Any, ...]:
    """The operations of layers one after another; `masked`: with windows that fit each input's mask."""
    pairs = zip(layers, signals, strict=False)
    return tuple(op for layer, s in pairs for op in (layer.lower_masked(s) if masked else layer.lower(s)))
