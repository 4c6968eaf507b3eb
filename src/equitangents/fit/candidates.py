"""Networks that are tried: dense, convolutional, pooled and staged ones of some depths, on images of some sizes.

A pool in front of the first weights averages an image down before its kernel is computed: no pairs of pixels are needed
for it, and it keeps the moves of pixels. Sides are those nearest to 8, 16 and 32 that divide the image's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from equitangents.fit.features import FeatureNetwork
from equitangents.kernels.orbit import OrbitAverage
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Relu, Sequential
from equitangents.nn.layer import Layer

_SIDES = (8, 16, 32)
_DEEP = (1, 2, 4)
_POOLED = (1, 2, 4, 8)
_ON_FEATURES, _CELLS = (1, 2), (4, 8)
_W_STD, _B_STD = math.sqrt(2), 0.1
_DENSE = Dense(1, W_std=_W_STD, b_std=_B_STD)
_ZEROS = Conv(1, (3, 3), padding="zero", W_std=_W_STD, b_std=_B_STD)
_CIRCULAR = Conv(1, (3, 3), padding="circular", W_std=_W_STD, b_std=_B_STD)


@dataclass(frozen=True)
class Candidate:
    """A network by its family, hidden layers and the pixels (H, W) it sees.

    family: "dense"; "convolutional", flattened in the end; "pooled" over all positions in the end; "staged", which
    halves its grid between layers as well (after the Myrtle networks of Shankar et al. 2020, arXiv 2003.02237);
    "colours and edges", "directions" of edges, or both, dense on these (`features`).

    pixels: () for vectors and colours; of directions the cells they are taken in.
    """

    family: str
    layers: int
    pixels: tuple[int, ...]
    net: Sequential | FeatureNetwork | OrbitAverage

    @property
    def name(self) -> str:
        """Such as "pooled, 2 layers, 16×16"."""
        size = f", {'×'.join(map(str, self.pixels))}" if self.pixels else ""
        return f"{self.family}, {self.layers} layer{'s' if self.layers > 1 else ''}{size}"


def candidates(input_shape: tuple[int, ...]) -> tuple[Candidate, ...]:
    """What is tried of inputs (channels,) or (H, W, channels).

    >>> [each.name for each in candidates((5,))]
    ['dense, 1 layer', 'dense, 2 layers', 'dense, 4 layers']
    >>> sorted({each.pixels for each in candidates((28, 28, 1))})
    [(7, 7), (14, 14), (28, 28)]
    """
    if len(input_shape) == 1:
        return tuple(Candidate("dense", depth, (), _dense(depth)) for depth in _DEEP)
    height, width = input_shape[:2]
    found = []
    for window in _windows(height, width):
        pixels = height // window, width // window
        kinds: list[tuple[str, int, list[Layer]]] = [("dense", 2, [Flatten(), *_hidden(_DENSE, 2)])]
        kinds += [("convolutional", depth, [*_hidden(_ZEROS, depth), Flatten()]) for depth in (2, 4)]
        kinds += [("pooled", depth, [*_hidden(_CIRCULAR, depth), GlobalAvgPool()]) for depth in _POOLED]
        if not (pixels[0] % 4 or pixels[1] % 4):
            halved = [AvgPool(2), *_hidden(_CIRCULAR, 1)]
            kinds.append(("staged", 4, [*_hidden(_CIRCULAR, 2), *halved, *halved, GlobalAvgPool()]))
        found += [Candidate(family, depth, pixels, _network(layers, window)) for family, depth, layers in kinds]
    return tuple(found)


def of_features(x: Float[np.ndarray, "n height width channels"]) -> tuple[Candidate, ...]:
    """Dense networks on colours and edges, on directions of edges in 4×4 and 8×8 cells, and on both."""
    kinds = [("colours and edges", 0, True)]
    for cells in _CELLS:
        if min(x.shape[1:3]) >= 2 * cells:
            kinds += [("directions", cells, False), ("directions, colours and edges", cells, True)]
    nets = [FeatureNetwork.of(_dense(1), x, cells, colours) for _, cells, colours in kinds]
    return tuple(
        Candidate(family, depth, (cells, cells) if cells else (), replace(net, base=_dense(depth)))
        for (family, cells, _), net in zip(kinds, nets, strict=True)
        for depth in _ON_FEATURES
    )


def _windows(height: int, width: int) -> list[int]:
    """Sides of the blocks that are averaged: of those that divide the image the nearest to each size that is wanted."""
    side, both = math.sqrt(height * width), math.gcd(height, width)
    divisors = [k for k in range(1, both + 1) if both % k == 0]
    return sorted({min(divisors, key=lambda k: abs(math.log(side / k / wanted))) for wanted in _SIDES}, reverse=True)


def _dense(depth: int) -> Sequential:
    return _network([Flatten(), *_hidden(_DENSE, depth)])


def _network(layers: Sequence[Layer], window: int = 1) -> Sequential:
    """The layers on means over blocks of window² pixels, and an output."""
    return Sequential(*([AvgPool(window)] if window > 1 else []), *layers, Dense(1))


def _hidden(layer: Layer, depth: int) -> tuple[Layer, ...]:
    return (layer, Relu()) * depth
