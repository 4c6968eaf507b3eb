"""Kernels of infinitely wide networks: programs, duals, engines, orbit averages, and finite-width estimates."""

from equitangents.kernels.cost.forecast import KernelCost
from equitangents.kernels.dispatch import compute, compute_diagonal, kernel_cost
from equitangents.kernels.empirical import empirical, empirical_matrix
from equitangents.kernels.engines import Engine, engine_name
from equitangents.kernels.engines import register as register_engine
from equitangents.kernels.equivariant import EquivariantAverage, equivariant_average
from equitangents.kernels.finite_width import FiniteWidth, finite_width
from equitangents.kernels.invariance import kernel_invariance_error
from equitangents.kernels.monte_carlo import MonteCarlo, monte_carlo
from equitangents.kernels.orbit import OrbitAverage, orbit_average
from equitangents.kernels.program import Program
from equitangents.kernels.random_features import RandomFeatures, random_features
from equitangents.kernels.result import KernelField, KernelFunction, Kernels
from equitangents.kernels.store import KeptKernel, KernelStore

__all__ = [
    "Engine",
    "EquivariantAverage",
    "FiniteWidth",
    "KeptKernel",
    "KernelCost",
    "KernelField",
    "KernelFunction",
    "KernelStore",
    "Kernels",
    "MonteCarlo",
    "OrbitAverage",
    "Program",
    "RandomFeatures",
    "compute",
    "compute_diagonal",
    "empirical",
    "empirical_matrix",
    "engine_name",
    "equivariant_average",
    "finite_width",
    "kernel_cost",
    "kernel_invariance_error",
    "monte_carlo",
    "orbit_average",
    "random_features",
    "register_engine",
]
