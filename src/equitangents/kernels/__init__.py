"""Kernels of infinitely wide networks: programs, activation kernels, engines, orbit averages, finite-width effects."""

from equitangents.kernels.engines import Engine
from equitangents.kernels.engines import register as register_engine
from equitangents.kernels.finite_width import finite_width
from equitangents.kernels.orbit import orbit_average
from equitangents.kernels.random_features import random_features
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.tangent import empirical, monte_carlo

__all__ = [
    "Engine",
    "KernelFunction",
    "Kernels",
    "empirical",
    "finite_width",
    "monte_carlo",
    "orbit_average",
    "random_features",
    "register_engine",
]
