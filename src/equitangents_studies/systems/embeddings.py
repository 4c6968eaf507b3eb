"""Inclusions of architectures: weights with which the larger network computes the smaller one's function.

GAP_n ⊆ LAP_n ⊆ VEC_n ⊆ LCN_n ⊆ FCN_{dn}        on d positions, n channels
LCN_n ⊆ VEC_{dn}

GAP, LAP → VEC   a mean is a dense readout with equal weights for all positions of a block
VEC → LCN        every position has the convolution's weights
LCN → FCN        weights outside of windows are 0
LCN → VEC        channel (p, i) computes channel i of position p; its values at other positions are not read

Scales differ: y = σ_w/√fan-in W x, so W is multiplied by the root of the quotient of the fans-in.

Source: Xiao & Pennington 2022, arXiv 2207.04612, Theorem 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.extending import ArrayLike, Params, check_shape
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Layer, LocallyConnected, Relu, Sequential
from equitangents_studies.systems.architectures import kind_of


class Embedded(NamedTuple):
    """A network and its parameters."""

    net: Sequential
    params: Params


def embed(net: Sequential, params: Params, target: str, input_shape: tuple[int, ...]) -> Embedded:
    """A network of the architecture `target` and weights of it that compute the same function.

    Args:
        net: GAP, LAPk, VEC or LCN of `architecture`, of any depth and width n, of stride 1 and circular padding, in NTK
            parametrisation.
        params: of `net.init`.
        target: "VEC", "LCN" or "FCN", as far as Theorem 3.1 goes: GAP, LAPk → VEC → LCN → FCN, or LCN → VEC. From
            LCN_n, VEC has dn channels; FCN has dn.
        input_shape: (*positions, channels) of inputs.

    Raises InvalidArgumentError where the target does not hold the network.

    >>> import jax, numpy as np
    >>> from equitangents_studies.systems import architecture
    >>> net = architecture("GAP", depth=2, width=4)
    >>> params = net.init(jax.random.key(0), (4, 4, 3))
    >>> wide = embed(net, params, "FCN", (4, 4, 3))
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3)).astype(np.float32)
    >>> wide.net.layers[1].channels, bool(np.allclose(wide.net.apply(wide.params, x), net.apply(params, x), atol=1e-5))
    (64, True)
    """
    if not isinstance(net, Sequential):
        raise InvalidTypeError("net", net, "a network that architecture() makes")
    if not isinstance(target, str):
        raise InvalidTypeError("target", target, "'VEC', 'LCN' or 'FCN'")
    route, shape = _route(kind_of(net), target), check_shape("input_shape", input_shape)
    _check_params(net, params, shape)
    current = Embedded(net, tuple(params))
    for step in route:
        current = step(current, shape)
    return current


def _check_params(net: Sequential, params: Params, shape: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError unless these are parameters of the network, in NTK scale, of the shapes of `init`."""
    for layer in net.layers:
        if getattr(layer, "parametrisation", "ntk") != "ntk":
            raise NetworkError("net", layer, "the NTK parametrisation", verb="holds")
    fresh = jax.eval_shape(lambda key: net.init(key, shape), jax.random.key(0))
    given = tuple(params) if isinstance(params, tuple | list) else None
    if jax.tree.map(np.shape, given) != jax.tree.map(np.shape, fresh):
        raise InvalidArgumentError(
            "params", given, "parameters that fit the network", "as net.init(key, shape) gives", verb="have shapes"
        )


def _route(source: str, target: str) -> list[Callable[[Embedded, tuple[int, ...]], Embedded]]:
    """The steps from one architecture to another."""
    if (source, target) == ("LCN", "VEC"):
        return [_position_channels]
    chain = ("pooled", "VEC", "LCN", "FCN")
    steps: list[Callable[[Embedded, tuple[int, ...]], Embedded]] = [_unpool, _unshare, _fill]
    held = "pooled" if source == "GAP" or source.startswith("LAP") else source
    if held in chain and target in chain and chain.index(held) < chain.index(target):
        return steps[chain.index(held) : chain.index(target)]
    raise InvalidArgumentError("target", (source, target), "a step of GAP, LAPk → VEC → LCN → FCN, or LCN → VEC")


def _unpool(held: Embedded, shape: tuple[int, ...]) -> Embedded:
    """Replace a readout of global or block means by a readout of all positions."""
    net, params = held
    readout, positions = net.layers[-1], math.prod(shape[:-1])
    assert isinstance(readout, Dense), readout
    pool = next(layer for layer in net.layers if isinstance(layer, AvgPool | GlobalAvgPool))
    basis = np.eye(positions).reshape(positions, *shape[:-1], 1)
    means = np.asarray(Sequential(pool).apply(((),), basis), np.float64).reshape(positions, -1)  # (positions, blocks)
    w = np.asarray(params[-1]["w"], np.float64).reshape(means.shape[1], -1, readout.channels)
    weights = np.einsum("pb,bcn->pcn", means, w) * math.sqrt(positions / means.shape[1])
    end = params[-1] | {"w": _as(params[-1]["w"], weights.reshape(-1, readout.channels))}
    depth = max(i for i, layer in enumerate(net.layers) if isinstance(layer, Relu)) + 1
    return Embedded(Sequential(*net.layers[:depth], Flatten(), readout), (*params[:depth], (), end))


def _unshare(held: Embedded, shape: tuple[int, ...]) -> Embedded:
    """Replace convolutions by locally connected layers."""
    positions = math.prod(shape[:-1])
    pairs: list[tuple[Layer, Params]] = []
    for layer, p in zip(held.net.layers, held.params, strict=True):
        if isinstance(layer, Conv):
            _check_plain(layer)
            layer = LocallyConnected(**_settings(layer))
            p = {name: _as(a, np.broadcast_to(np.asarray(a), (positions, *a.shape))) for name, a in p.items()}
        pairs.append((layer, p))
    return _embedded(pairs)


def _fill(held: Embedded, shape: tuple[int, ...]) -> Embedded:
    """Replace locally connected layers by dense layers on the channels of all positions."""
    positions, channels = math.prod(shape[:-1]), shape[-1]
    pairs: list[tuple[Layer, Params]] = [(Flatten(), ())]
    for layer, p in zip(held.net.layers, held.params, strict=True):
        if isinstance(layer, Flatten):
            continue
        if isinstance(layer, LocallyConnected):
            reads, w = _taps(layer, p, (*shape[:-1], channels))
            full = np.zeros((positions, channels, positions, layer.channels))
            for tap in range(reads.shape[1]):  # a small torus is read by several taps at one position: += takes each
                full[reads[:, tap], :, np.arange(positions)] += w[:, tap]
            full *= math.sqrt(positions / reads.shape[1])
            p = _weights(p, full.reshape(positions * channels, -1))
            channels = layer.channels
            layer = Dense(positions * channels, W_std=layer.W_std, b_std=layer.b_std)
        pairs.append((layer, p))
    return _embedded(pairs)


def _position_channels(held: Embedded, shape: tuple[int, ...]) -> Embedded:
    """Replace locally connected layers by convolutions with separate channels for every position."""
    positions = math.prod(shape[:-1])
    channels, wide = shape[-1], 1  # `wide` is how many times the channels the convolution's input has
    pairs: list[tuple[Layer, Params]] = []
    for layer, p in zip(held.net.layers, held.params, strict=True):
        if isinstance(layer, LocallyConnected):
            reads, w = _taps(layer, p, (*shape[:-1], channels))
            full = np.zeros((reads.shape[1], wide, channels, positions, layer.channels))
            at = np.arange(positions)
            for tap in range(reads.shape[1]):
                source = reads[:, tap] if wide > 1 else np.zeros(positions, int)
                full[tap, source, :, at] = w[:, tap]
            full *= math.sqrt(wide)
            p = _weights(p, full.reshape(-1, positions * layer.channels))
            channels, wide = layer.channels, positions
            layer = Conv(**(_settings(layer) | {"channels": positions * channels}))
        elif isinstance(layer, Dense):
            readout = np.zeros((positions, positions, channels, layer.channels))
            own = np.asarray(p["w"], np.float64).reshape(positions, channels, layer.channels)
            readout[np.arange(positions), np.arange(positions)] = own * math.sqrt(positions)
            p = p | {"w": _as(p["w"], readout.reshape(-1, layer.channels))}
        pairs.append((layer, p))
    return _embedded(pairs)


def _embedded(pairs: list[tuple[Layer, Params]]) -> Embedded:
    return Embedded(Sequential(*(layer for layer, _ in pairs)), tuple(p for _, p in pairs))


def _taps(layer: LocallyConnected, p: Params, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Positions read by every tap (positions, taps), and weights (positions, taps, channels in, channels)."""
    _check_plain(layer)
    reads = layer.positions_read(shape[:-1])
    return reads, np.asarray(p["w"], np.float64).reshape(*reads.shape, shape[-1], layer.channels)


def _weights(p: Params, w: np.ndarray) -> dict[str, ArrayLike]:
    """Parameters with weights w and the bias of p, for the channels of all positions."""
    return {"w": _as(p["w"], w)} | ({"b": p["b"].reshape(-1)} if "b" in p else {})


def _settings(layer: Conv | LocallyConnected) -> dict[str, Any]:
    """Arguments common to convolutions and locally connected layers."""
    return {name: value for name, value in vars(layer).items() if name != "parametrisation"}


def _check_plain(layer: Conv | LocallyConnected) -> None:
    if layer.padding != "circular" or (layer.stride if isinstance(layer.stride, int) else max(layer.stride)) != 1:
        raise NetworkError("net", layer, "stride 1 and circular padding", verb="holds")


def _as(reference: ArrayLike, value: np.ndarray) -> np.ndarray:
    return np.asarray(value, np.dtype(reference.dtype))
