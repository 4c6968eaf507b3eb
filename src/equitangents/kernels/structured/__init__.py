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
from equitangents.kernels.structured.simplify import in_fields, simplified

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
    "in_fields",
    "is_padded",
    "is_structured",
    "keeps_windows",
    "simplified",
]
