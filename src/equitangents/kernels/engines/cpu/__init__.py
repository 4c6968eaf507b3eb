"""The CPU engine: fibres in C++, vectorised across inputs. Its source is in `native/`."""

from equitangents.kernels.engines.cpu.descriptor import Description, describe, obstacle
from equitangents.kernels.engines.cpu.library import description as library_description
from equitangents.kernels.engines.cpu.library import why_unavailable
from equitangents.kernels.engines.cpu.memory import working_bytes
from equitangents.kernels.engines.cpu.run import diagonal, kernels, kernels_of_distances, traced_kernels

__all__ = [
    "Description",
    "describe",
    "diagonal",
    "kernels",
    "kernels_of_distances",
    "library_description",
    "obstacle",
    "traced_kernels",
    "why_unavailable",
    "working_bytes",
]
