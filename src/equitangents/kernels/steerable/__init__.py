"""Steerable programs: kernels of features in irreps of SO(2), O(2), SO(3) and O(3) on points, which are matrices."""

from equitangents.kernels.steerable.norms import gaussian_sums
from equitangents.kernels.steerable.program import (
    Filter,
    Gate,
    Norm,
    PointMap,
    PointMean,
    Sampled,
    SteerableProgram,
    is_steerable,
)

__all__ = [
    "Filter",
    "Gate",
    "Norm",
    "PointMap",
    "PointMean",
    "Sampled",
    "SteerableProgram",
    "gaussian_sums",
    "is_steerable",
]
