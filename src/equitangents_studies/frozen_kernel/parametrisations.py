"""One network under three parametrisations: what differs is how far weights move for the same change of the output.

NTK         y = σ_w/√n · W x + σ_b b, W, b ~ N(0, 1): `equitangents.nn` as it stands
standard    y = V x + c, V ~ N(0, σ_w²/n), c ~ N(0, σ_b²): the same functions, Θ = Σ_V (n/σ_w²) Θ_V + Σ_c (1/σ_b²) Θ_c
mean field  f/√width of the NTK parametrisation: the output begins near 0, so that features must move
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax

from equitangents import nn
from equitangents.extending import ArrayLike, FiniteNetwork, Params
from equitangents_studies.systems.architectures import Reparametrised

PARAMETRISATIONS = ("ntk", "standard", "mean-field")
TITLES = {"ntk": "NTK parametrisation", "standard": "standard parametrisation", "mean-field": "mean-field output scale"}


@dataclass(frozen=True)
class MeanField:
    """`net` with its output divided by √width."""

    net: nn.Sequential
    width: int

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: str = "float32") -> Params:
        """The parameters of `net`."""
        return self.net.init(key, input_shape, dtype)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """1/√width times what `net` gives."""
        return self.net.apply(params, x) / math.sqrt(self.width)


def parametrised(net: nn.Sequential, width: int, parametrisation: str) -> FiniteNetwork:
    """`net` under one of PARAMETRISATIONS."""
    known: dict[str, FiniteNetwork] = {
        "ntk": net,
        "standard": Reparametrised(net),
        "mean-field": MeanField(net, width),
    }
    return known[parametrisation]
