"""Steerable features: irreps of SO(2), O(2), SO(3), O(3), equivariant kernels between them, signals on directions."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
from equitangents.steerable.features import Features
from equitangents.steerable.gaussian_sum import GaussianSum
from equitangents.steerable.irrep import irrep

__all__ = [
    "Features",
    "GaussianSum",
    "irrep",
]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
