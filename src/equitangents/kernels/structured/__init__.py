"""Structured programs: networks with branches, masks, graphs, attention or dropout, over all pairs of positions."""

from equitangents.kernels.structured.cost import kernel_cost
from equitangents.kernels.structured.masks import centres
from equitangents.kernels.structured.program import (
    Add,
    Attend,
    BlockSums,
    Drop,
    Join,
    Mix,
    Normalise,
    Split,
    StructuredProgram,
    Times,
    is_structured,
)
from equitangents.kernels.structured.run import compute, compute_diagonal
from equitangents.kernels.structured.simplify import in_fields, simplified

__all__ = [
    "Add",
    "Attend",
    "BlockSums",
    "Drop",
    "Join",
    "Mix",
    "Normalise",
    "Split",
    "StructuredProgram",
    "Times",
    "centres",
    "compute",
    "compute_diagonal",
    "in_fields",
    "is_structured",
    "kernel_cost",
    "simplified",
]
