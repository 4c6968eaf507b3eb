"""Variants of an architecture: another depth, other scales, another nonlinearity.

A block is a residual block, or the layers up to and including a nonlinearity. The network's depth is its number of
blocks; the layers after the last block, the readout, do not change.
"""

from __future__ import annotations

from dataclasses import replace

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.nn.branches import Parallel, Residual
from equitangents.nn.layer import Layer, Nonlinearity, check_scale, plain
from equitangents.nn.nonlinearities import Abs, Cos, Erf, Gelu, LeakyRelu, Relu, Sin
from equitangents.nn.sequential import Sequential
from equitangents.validation import check_whole

_NAMED: dict[str, type[Nonlinearity]] = {
    "relu": Relu, "erf": Erf, "gelu": Gelu, "abs": Abs, "sin": Sin, "cos": Cos, "leaky_relu": LeakyRelu,
}  # fmt: skip


def vary(
    net: Sequential,
    *,
    depth: int | None = None,
    W_std: float | None = None,
    b_std: float | None = None,
    nonlinearity: Nonlinearity | str | None = None,
) -> Sequential:
    """`net` with another number of blocks, other scales in every layer with weights, or another nonlinearity.

    None changes nothing. Fewer blocks: the first ones remain. More: the last linear layer and nonlinearity, or residual
    block, are repeated. A nonlinearity may be passed by name ("relu", "erf", …).

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.Flatten(), nn.Dense(8), nn.Relu(), nn.Dense(1))
    >>> len(vary(net, depth=2).layers), vary(net, b_std=0.5, nonlinearity="erf")
    (6, Sequential(Flatten(), Dense(channels=8, W_std=1.0, b_std=0.5), Erf(), Dense(channels=1, W_std=1.0, b_std=0.5)))
    """
    if not isinstance(net, Sequential):
        remedy = "depth, W_std, b_std and nonlinearity vary networks of equitangents.nn"
        raise InvalidTypeError("net", net, remedy=remedy)
    layers = list(net.layers)
    if depth is not None:
        layers = _with_depth(layers, check_whole("depth", depth, 1))
    scales = {name: plain(value) for name, value in (("W_std", W_std), ("b_std", b_std)) if value is not None}
    for name, value in scales.items():
        check_scale(name, value)
    phi = nonlinearity
    if isinstance(phi, str) and phi.lower() in _NAMED:
        phi = _NAMED[phi.lower()]()
    if not isinstance(phi, Nonlinearity | None):
        raise InvalidArgumentError("nonlinearity", phi, [Nonlinearity.__name__, *_NAMED])

    def changed(layer: Layer) -> Layer:
        if isinstance(layer, Residual):
            return Residual(*map(changed, layer.layers))
        if isinstance(layer, Parallel):
            return Parallel(*(list(map(changed, branch)) for branch in layer.inner))
        if isinstance(layer, Nonlinearity):
            return phi or layer
        mine = {name: value for name, value in scales.items() if hasattr(layer, name)}
        return replace(layer, **mine) if mine else layer  # type: ignore[type-var]

    return Sequential(*map(changed, layers))


def _with_depth(layers: list[Layer], depth: int) -> list[Layer]:
    ends = [i + 1 for i, layer in enumerate(layers) if isinstance(layer, Nonlinearity | Residual)]
    if not ends:
        raise InvalidArgumentError("depth", depth, remedy="the network has no nonlinearity, so no blocks to repeat")
    if depth <= len(ends):
        return layers[: ends[depth - 1]] + layers[ends[-1] :]
    last = ends[-1] - 1
    start = last
    if not isinstance(layers[last], Residual):
        start = next((i for i in range(last, -1, -1) if layers[i].has_weights), -1)
    if start < 0 or layers[start].lifts_to is not None:
        remedy = (
            "the last block does not begin with a layer with weights that can be repeated: give networks as net=[...]"
        )
        raise InvalidArgumentError("depth", depth, range(1, len(ends) + 1), remedy)
    return layers[: last + 1] + layers[start : last + 1] * (depth - len(ends)) + layers[last + 1 :]
