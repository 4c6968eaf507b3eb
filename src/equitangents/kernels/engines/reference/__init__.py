"""The reference engine: every program in pure JAX."""

from equitangents.kernels.engines.reference.tile import Prepared, diagonal, prepare, tile

__all__ = ["Prepared", "diagonal", "prepare", "tile"]
