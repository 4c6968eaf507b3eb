"""The reference engine: every program in pure JAX."""

from equitangents.kernels.engines.reference.tile import (
    Prepared,
    after_readout,
    aligned,
    carries_distance,
    diagonal,
    in_units,
    own_after_readout,
    prepare,
    tile,
)

__all__ = [
    "Prepared",
    "after_readout",
    "aligned",
    "carries_distance",
    "diagonal",
    "in_units",
    "own_after_readout",
    "prepare",
    "tile",
]
