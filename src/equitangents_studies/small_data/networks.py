"""The networks, by name: 3×3 convolutions with zero padding and no biases, ReLU or the normalised exponential.

Myrtle-5  C C pool C pool C, then the mean over positions and a dense layer      (2 × 2 pools)
Myrtle-7  C C pool C C pool C C, then the same
GAP, VEC  convolutions, then the mean over positions (GAP) or all of them (VEC) into a dense layer
FCN       dense layers on all pixels

Source of Myrtle and of the normalised exponential kernel: arXiv 2003.02237. There three pools follow each other after
the last convolution, which on 32 × 32 pixels is the mean over all positions.
"""

from __future__ import annotations

from equitangents import nn

NETWORKS = ("Myrtle-5", "Myrtle-7", "GAP", "VEC", "FCN")
NONLINEARITIES = {"relu": "ReLU", "exponential": "normalised exponential"}
_BLOCKS = {"Myrtle-5": (2, 1, 1), "Myrtle-7": (2, 2, 2)}


def network(name: str, nonlinearity: str, hidden_layers: int, width: int = 1, outputs: int = 1) -> nn.Sequential:
    """The network `name`; its kernel does not depend on `width` and `outputs`."""
    W_std = 2**0.5 if nonlinearity == "relu" else 1.0  # either way the variance stays what it was
    act: nn.Layer = nn.Relu() if nonlinearity == "relu" else nn.Exponential()
    convolution: tuple[nn.Layer, ...] = (nn.Conv(width, (3, 3), padding="zero", W_std=W_std), act)
    layers: list[nn.Layer] = []
    if name in _BLOCKS:
        for i, count in enumerate(_BLOCKS[name]):
            layers += [*([nn.AvgPool(2)] if i else []), *convolution * count]
        layers.append(nn.GlobalAvgPool())
    elif name == "FCN":
        layers += [nn.Flatten(), *(nn.Dense(width, W_std=W_std), act) * hidden_layers]
    else:
        layers += [*convolution * hidden_layers, nn.GlobalAvgPool() if name == "GAP" else nn.Flatten()]
    return nn.Sequential(*layers, nn.Dense(outputs))
