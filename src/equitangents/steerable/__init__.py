"""Steerable features: irreps of SO(2), O(2), SO(3), O(3), equivariant kernels between them, signals on directions."""

from equitangents.steerable.angular import AngularKernel, angular_kernels
from equitangents.steerable.features import Features
from equitangents.steerable.gaussian_sum import GaussianSum
from equitangents.steerable.harmonics import direction_harmonics
from equitangents.steerable.irrep import Irrep, irrep
from equitangents.steerable.rings import rings
from equitangents.steerable.samples import Samples, samples

__all__ = [
    "AngularKernel",
    "Features",
    "GaussianSum",
    "Irrep",
    "Samples",
    "angular_kernels",
    "direction_harmonics",
    "irrep",
    "rings",
    "samples",
]
