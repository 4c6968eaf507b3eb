"""The six architectures of the source, of any depth and width, for signals on grids of one to three dimensions.

FCN   Flatten, (Dense, ReLU) × depth, Dense
LCN   (LocallyConnected 3×3, ReLU) × depth, Flatten, Dense
VEC   (Conv 3×3, ReLU) × depth, Flatten, Dense
GAP   (Conv 3×3, ReLU) × depth, GlobalAvgPool, Dense
LAPk  (Conv 3×3, ReLU) × depth, AvgPool k×k, Flatten, Dense

Circular padding; every layer, the readout too, has σ_w² = 2 and σ_b² = 0.01. Source: Xiao & Pennington 2022, arXiv
2207.04612. It states neither the window nor LAP's width: 3 and that of VEC are this library's choice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal, overload

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.extending import check_whole
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Layer, LocallyConnected, Relu, Sequential
from equitangents_studies.systems.parametrisations import Reparametrised, check_choice
from equitangents_studies.systems.patch_networks import PatchNetwork

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
WIDTHS = {"FCN": 1024, "LCN": 32, "VEC": 128, "GAP": 128, "LAP": 128}
"""The source's widths; LAP's is this library's choice."""

W_STD, B_STD, WINDOW = 2**0.5, 0.1, 3
_LAP = re.compile(r"LAP([1-9]\d*)")


@overload
def architecture(
    name: str,
    depth: int = 8,
    width: int | None = None,
    outputs: int = 1,
    *,
    first_layer: Literal["gaussian"] = "gaussian",
) -> Sequential: ...


@overload
def architecture(
    name: str,
    depth: int = 8,
    width: int | None = None,
    outputs: int = 1,
    *,
    parametrisation: str = "ntk",
    first_layer: str = "gaussian",
) -> Sequential | Reparametrised: ...


def architecture(
    name: str,
    depth: int = 8,
    width: int | None = None,
    outputs: int = 1,
    *,
    parametrisation: str = "ntk",
    first_layer: str = "gaussian",
) -> Sequential | Reparametrised:
    """One of FCN, LCN, VEC, GAP, LAP4 and LAP8 (LAPk pools over k × k for any k) with `depth` hidden layers.

    Args:
        name: which.
        depth: hidden layers.
        width: channels of each of them; None: the source's, 1024 / 32 / 128 / 128 for FCN / LCN / VEC / GAP, and 128.
        outputs: of the readout; a `System` sets it to the number of classes itself.
        parametrisation: "ntk", or "standard": gradients are taken of the weights as they multiply inputs.
        first_layer: the distribution of the first layer's weights, "gaussian" or "uniform", of equal variance.

    Returns an `nn.Sequential`, with `init`, `apply` and, at infinite width, `kernel`; with a standard parametrisation
    or a uniform first layer a network with `init` and `apply` alone, since its infinite width is another one.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(3, 4, 4, 3))
    >>> architecture("VEC", depth=2).kernel(x).ntk.shape
    (3, 3)
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"name is {name!r}; expected one of {', '.join(ARCHITECTURES)}")
    check_whole("depth", depth, 1)
    check_whole("outputs", outputs, 1)
    pooled = _LAP.fullmatch(name)
    if name not in ARCHITECTURES and not pooled:
        raise InvalidArgumentError(f"name is {name!r}; expected one of {', '.join(ARCHITECTURES)}")
    check_choice("parametrisation", parametrisation, ("ntk", "standard"))
    check_choice("first_layer", first_layer, ("gaussian", "uniform"))
    width = WIDTHS[name[:3]] if width is None else check_whole("width", width, 1)
    net = Sequential(*_layers(name, int(pooled[1]) if pooled else None, depth, width), _dense(outputs))
    if (parametrisation, first_layer) == ("ntk", "gaussian"):
        return net
    return Reparametrised(net, parametrisation, first_layer)


def _layers(name: str, pool: int | None, depth: int, width: int) -> list[Layer]:
    layers: dict[str, Layer] = {
        "FCN": _dense(width),
        "LCN": LocallyConnected(width, WINDOW, W_std=W_STD, b_std=B_STD),
    }
    hidden = [layers.get(name, Conv(width, WINDOW, W_std=W_STD, b_std=B_STD)), Relu()] * depth
    if name == "FCN":
        return [Flatten(), *hidden]
    if name == "GAP":
        return [*hidden, GlobalAvgPool()]
    return [*hidden, Flatten()] if pool is None else [*hidden, AvgPool(pool), Flatten()]


def _dense(channels: int) -> Dense:
    return Dense(channels, W_std=W_STD, b_std=B_STD)


def with_outputs(net: object, outputs: int) -> Any:
    """The network with a readout of so many outputs, where it ends with Dense; other networks must have them already.

    >>> with_outputs(architecture("FCN", depth=1, width=4), 10).layers[-1].channels
    10
    """
    if isinstance(net, Reparametrised):
        return replace(net, net=with_outputs(net.net, outputs))
    if not isinstance(net, Sequential):
        return replace(net, outputs=outputs) if isinstance(net, PatchNetwork) else net
    last = net.layers[-1]
    if not isinstance(last, Dense):
        raise NetworkError(f"the network {net!r} does not end with Dense; expected a readout of {outputs} outputs")
    return Sequential(*net.layers[:-1], replace(last, channels=outputs))


def kind_of(net: object) -> str:
    """Which of the architectures a network is, or "network" for others.

    >>> kind_of(architecture("LAP4", depth=2))
    'LAP4'
    """
    if isinstance(net, Reparametrised):
        return kind_of(net.net)
    if not isinstance(net, Sequential):
        return net.kind if isinstance(net, PatchNetwork) else "network"
    layers = net.layers
    weighted = [layer for layer in layers[:-1] if not isinstance(layer, Relu | Flatten | GlobalAvgPool | AvgPool)]
    kinds = {type(layer) for layer in weighted}
    rest = tuple(layer for layer in layers if not isinstance(layer, Relu) and layer not in weighted)[:-1]
    if kinds == {Dense} and rest == (Flatten(),) and layers[0] == Flatten():
        return "FCN"
    if kinds == {LocallyConnected} and rest == (Flatten(),):
        return "LCN"
    if kinds != {Conv}:
        return "network"
    if rest == (Flatten(),):
        return "VEC"
    if rest == (GlobalAvgPool(),):
        return "GAP"
    if len(rest) == 2 and isinstance(rest[0], AvgPool) and rest[1] == Flatten():
        return f"LAP{rest[0].window}"
    return "network"
