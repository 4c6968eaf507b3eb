"""Solving what training at infinite width asks for: (Θ + δ)⁻¹Y and training times, at any size."""

from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.choosing import plan
from equitangents.solvers.finite_time import Lanczos
from equitangents.solvers.low_rank import Nystrom, SubsetOfRegressors
from equitangents.solvers.multi_gpu import MultiGPU
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.solvers.sketch_and_project import SketchAndProject
from equitangents.solvers.solving import solve

__all__ = [
    "PCG",
    "Cholesky",
    "Lanczos",
    "MultiGPU",
    "Nystrom",
    "OutOfCore",
    "SketchAndProject",
    "SubsetOfRegressors",
    "plan",
    "solve",
]
