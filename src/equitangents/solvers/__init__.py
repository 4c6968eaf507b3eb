"""Linear solvers for training at infinite width: (Θ + δ)⁻¹Y and finite training times, at any size."""

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
