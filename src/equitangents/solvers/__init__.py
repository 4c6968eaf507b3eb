"""Solving what training at infinite width asks for: (Θ + δ)⁻¹Y and training times, at any size."""

from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.choosing import SOLVERS, Plan, plan
from equitangents.solvers.eigh import Eigh
from equitangents.solvers.finite_time import Lanczos
from equitangents.solvers.low_rank import Nystrom, SubsetOfRegressors
from equitangents.solvers.matrices import KernelMatrix, SymmetricMatrix
from equitangents.solvers.method import Method
from equitangents.solvers.multi_gpu import MultiGPU
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.solvers.sketch_and_project import SketchAndProject
from equitangents.solvers.solution import Report, Solution
from equitangents.solvers.solving import Solver, solve
from equitangents.solvers.system import System

__all__ = [
    "PCG",
    "SOLVERS",
    "Cholesky",
    "Eigh",
    "KernelMatrix",
    "Lanczos",
    "Method",
    "MultiGPU",
    "Nystrom",
    "OutOfCore",
    "Plan",
    "Report",
    "SketchAndProject",
    "Solution",
    "Solver",
    "SubsetOfRegressors",
    "SymmetricMatrix",
    "System",
    "plan",
    "solve",
]
