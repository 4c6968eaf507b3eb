"""Structured programs: networks with branches, masks, graphs, attention or dropout, over all pairs of positions."""

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
    "in_fields",
    "is_structured",
    "simplified",
]
