"""Kernels of networks lifted to rotations: SO(3), O(3), and finite groups of rotations."""

from equitangents.kernels.rotations.program import (
    FULL,
    Accuracy,
    HaarMean,
    RotationFibres,
    RotationOp,
    RotationProgram,
    Zonal,
)
from equitangents.kernels.rotations.resolution import Resolution

__all__ = [
    "FULL",
    "Accuracy",
    "HaarMean",
    "Resolution",
    "RotationFibres",
    "RotationOp",
    "RotationProgram",
    "Zonal",
]
