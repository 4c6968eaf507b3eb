"""The CNN of studies of fields, on a torus, with variances that keep the size of signals."""

from __future__ import annotations

from typing import Any

from equitangents import nn

STD: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


def ends_on_positions(hidden_layers: int, channels: int, outputs: int) -> nn.Sequential:
    """3×3 windows, ReLU, and `outputs` numbers at every position."""
    hidden = [
        layer
        for _ in range(hidden_layers)
        for layer in (nn.Conv(channels, (3, 3), padding="circular", **STD), nn.Relu())
    ]
    return nn.Sequential(*hidden, nn.Dense(outputs, **STD))
