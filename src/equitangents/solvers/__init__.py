"""Solving what training at infinite width asks for: (Θ + δ)⁻¹Y and training times, at any size."""

from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.lanczos import Lanczos
from equitangents.solvers.low_rank import Nystrom
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.solvers.solving import solve

__all__ = [
    "PCG",
    "Cholesky",
    "Lanczos",
    "Nystrom",
    "OutOfCore",
    "solve",
]
