"""The reference engine: every program in pure JAX."""

from equitangents.kernels.engines.reference.tile import Prepared, prepare, tile

__all__ = ["Prepared", "prepare", "tile"]
