"""Networks as JSON: a list of layers, each an object with the layer's name and its arguments.

    [{"layer": "Conv", "channels": 64, "window": 3, "W_std": 1.41, "b_std": 0.1}, {"layer": "Relu"},
     {"layer": "Flatten"}, {"layer": "Dense", "channels": 10}]

Layers inside of a layer are a list "layers": {"layer": "Residual", "layers": [...]}.
"""

from __future__ import annotations

import inspect
import reprlib
from pathlib import Path
from typing import Any

from equitangents import nn
from equitangents._types import Tree
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.files import file_bytes
from equitangents.foreign_files import read_json
from equitangents.keywords import unknown
from equitangents.nn.layer import Layer
from equitangents.nn.sequential import MOST_LAYERS, Sequential


def read_network(path: Path) -> Sequential:
    """The network that a JSON file describes; InvalidArgumentError, which names the file, for anything else."""
    try:
        content = read_json(file_bytes(path))
    except OSError as error:
        raise InvalidArgumentError("net", str(path), "a file that can be read", str(error.strerror)) from None
    except ValueError as error:
        raise InvalidArgumentError("net", str(path), "JSON", str(error)) from None
    try:
        return network_of(content)
    except EquitangentsError as error:
        raise InvalidArgumentError("net", str(path), "layers", str(error)) from None


def network_of(layers: object) -> Sequential:
    """The network described by a JSON list of layers.

    >>> network_of([{"layer": "Dense", "channels": 8, "W_std": 1.5}, {"layer": "Relu"}])
    Sequential(Dense(channels=8, W_std=1.5, b_std=0.0), Relu())
    """
    if (count := _count(layers)) > MOST_LAYERS:
        raise InvalidArgumentError("layers", count, range(MOST_LAYERS + 1), verb="number")
    return Sequential(*_layers(layers))


def _count(layers: object) -> int:
    """Number of layers in a JSON list, including those inside other layers."""
    if not isinstance(layers, list):
        return 0
    return len(layers) + sum(_count(each.get("layers")) for each in layers if isinstance(each, dict))


def _layers(content: object) -> list[Layer]:
    if not isinstance(content, list) or not content:
        raise InvalidArgumentError("layers", reprlib.repr(content), "a list of layers", verb="are")
    return [_layer(each) for each in content]


def _layer(content: object) -> Layer:
    if not isinstance(content, dict) or not isinstance(content.get("layer"), str):
        raise InvalidArgumentError("layer", reprlib.repr(content), 'an object such as {"layer": "Relu"}')
    arguments = dict(content)
    name = arguments.pop("layer")
    inside = _layers(arguments.pop("layers")) if "layers" in arguments else []
    known = _known()
    if name not in known:
        raise unknown("layer", name, known)
    try:
        layer: Layer = known[name](*inside, **{key: _value(value) for key, value in arguments.items()})
    except EquitangentsError as error:
        raise InvalidArgumentError(f"layer {name}: {error}") from None
    except TypeError as error:
        raise InvalidArgumentError("layer", name, "arguments that it takes", str(error)) from None
    return layer


def _known() -> dict[str, Any]:
    kinds = {name: getattr(nn, name) for name in nn.__all__}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Layer) and not inspect.isabstract(kind)
    }


def _value(value: Tree) -> Tree:
    return tuple(map(_value, value)) if isinstance(value, list) else value


def plain_network(kind: str, depth: int, w_std: float, b_std: float, width: int = 1, outputs: int = 1) -> Sequential:
    """`depth` hidden layers of an MLP, or of 3×3 convolutions that are then flattened; ReLU.

    At infinite width neither `width` nor `outputs` matters.
    """
    readout = nn.Dense(outputs, W_std=w_std)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), *(depth * [nn.Dense(width, W_std=w_std, b_std=b_std), nn.Relu()]), readout)
    convolutions = depth * [nn.Conv(width, (3, 3), W_std=w_std, b_std=b_std), nn.Relu()]
    return nn.Sequential(*convolutions, nn.Flatten(), readout)
