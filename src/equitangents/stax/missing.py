"""Names of neural-tangents that have no counterpart: each says what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

_INSTEAD = {
    "ConvTranspose": "use nn.Aggregate(matrix) with the matrix that spreads positions, and nn.Conv after it",
    "ImageResize": "resize the inputs beforehand, or use nn.Aggregate(matrix) with the interpolation's weights",
    "Index": "use nn.Aggregate(matrix) with a row of the identity matrix for each position kept",
    "DotGeneral": "use nn.Aggregate(matrix) along positions, or multiply the inputs beforehand",
    "FanInProd": "products of branches are not here; use nn.Sum or nn.Concatenate",
    "BatchNorm": "it has no kernel, since what it does to an input depends on the batch; use LayerNorm",
    "MaxPool": "it has no kernel in closed form; use AvgPool, or a convolution with strides",
}


def _missing(name: str, instead: str) -> Any:
    def refused(*args: object, **keywords: object) -> NoReturn:
        raise NotImplementedError(f"stax.{name}: {instead}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Not here: {instead}."
    return refused


ConvTranspose, ImageResize, Index, DotGeneral, FanInProd, BatchNorm, MaxPool = (
    _missing(name, instead) for name, instead in _INSTEAD.items()
)
