"""Steerable features: irreps of SO(2), O(2), SO(3), O(3), equivariant kernels between them, signals on directions."""

from equitangents.steerable.features import Features, irrep
from equitangents.steerable.gaussian_sum import GaussianSum

__all__ = [
    "Features",
    "GaussianSum",
    "irrep",
]
