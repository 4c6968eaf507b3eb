"""The plain networks that several studies share."""

from __future__ import annotations

from equitangents import nn


def mlp(
    width: int,
    hidden_layers: int,
    outputs: int = 1,
    *,
    W_std: float = 2**0.5,
    b_std: float = 0.1,
    smooth: bool = False,
    flatten: bool = False,
) -> nn.Sequential:
    """Fully connected layers of `width` with ReLU (Erf if `smooth`), then `outputs`; `flatten` reads signals."""
    hidden: list[nn.Layer] = [nn.Flatten()] if flatten else []
    for _ in range(hidden_layers):
        hidden += [nn.Dense(width, W_std=W_std, b_std=b_std), nn.Erf() if smooth else nn.Relu()]
    return nn.Sequential(*hidden, nn.Dense(outputs, W_std=W_std))
