"""Settings that neural-tangents names by enumerations; the functions of `stax` take their names."""

from __future__ import annotations

from enum import Enum


class AttentionMechanism(Enum):
    """What attention does to its logits."""

    SOFTMAX = "SOFTMAX"
    IDENTITY = "IDENTITY"
    ABS = "ABS"
    RELU = "RELU"


class PositionalEmbedding(Enum):
    """How attention is told of positions; here by channels of the input alone, that is NONE."""

    NONE = "NONE"
    SUM = "SUM"
    CONCAT = "CONCAT"


class AggregateImplementation(Enum):
    """How graphs are given: as weights of all pairs of nodes, DENSE, or as lists of edges, SPARSE."""

    DENSE = "DENSE"
    SPARSE = "SPARSE"
