"""Structured programs: networks with branches, masks, graphs, attention or dropout, over all pairs of positions."""

from equitangents.kernels.structured.masks import (
    averages,
    check_boxes,
    deciding,
    fitted_windows,
    is_padded,
    keeps_windows,
)
from equitangents.kernels.structured.program import (
    Add,
    Attend,
    BlockSums,
    Concatenate,
    Drop,
    Fitted,
    Mix,
    Normalise,
    Split,
    StructuredProgram,
    Times,
    is_structured,
)

__all__ = [
    "Add",
    "Attend",
    "BlockSums",
    "Concatenate",
    "Drop",
    "Fitted",
    "Mix",
    "Normalise",
    "Split",
    "StructuredProgram",
    "Times",
    "averages",
    "check_boxes",
    "deciding",
    "fitted_windows",
    "is_padded",
    "is_structured",
    "keeps_windows",
]
