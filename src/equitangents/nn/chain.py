"""Layers one after another: signals, parameters, outputs and checks."""

from __future__ import annotations

from functools import lru_cache

import jax

from equitangents._types import DType, Params, Tree
from equitangents.errors import NetworkError, ShapeError
from equitangents.nn.layer import Layer
from equitangents.nn.signal import Signal, Signals


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


def apply_layers(layers: tuple[Layer, ...], params: Params, x: Tree, signals: tuple[Signals, ...]) -> Tree:
    """The output of layers one after another."""
    for layer, p, s in zip(layers, params, signals, strict=False):
        x = layer.apply(p, x, s)
    return x


def run_layers(
    layers: tuple[Layer, ...], params: Params, x: Tree, signals: Signals, structure: Tree
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


@lru_cache(maxsize=256)
def why_no_ntk(layers: tuple[Layer, ...]) -> str | None:
    """Why one of the layers has no neural tangent kernel; None if all have."""
    return next((layer.no_ntk for layer in layers if layer.no_ntk is not None), None)
