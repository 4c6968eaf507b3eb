"""The CPU engine: fibres in C++, vectorised across inputs. Its source is in `native/`."""

from equitangents.kernels.engines.cpu.activations import computed_in_double, has_tables
from equitangents.kernels.engines.cpu.descriptor import Description, describe, obstacle
from equitangents.kernels.engines.cpu.library import description as library_description
from equitangents.kernels.engines.cpu.library import why_unavailable
from equitangents.kernels.engines.cpu.memory import sphere_bytes, working_bytes
from equitangents.kernels.engines.cpu.rotation_plans import RotationPlan, SphereMean, SpherePlan, Turns, ZonalMean
from equitangents.kernels.engines.cpu.run import (
    kernels,
    kernels_of_distances,
    listed,
    traced,
)

__all__ = [
    "Description",
    "RotationPlan",
    "SphereMean",
    "SpherePlan",
    "Turns",
    "ZonalMean",
    "computed_in_double",
    "describe",
    "has_tables",
    "kernels",
    "kernels_of_distances",
    "library_description",
    "listed",
    "obstacle",
    "sphere_bytes",
    "traced",
    "why_unavailable",
    "working_bytes",
]
