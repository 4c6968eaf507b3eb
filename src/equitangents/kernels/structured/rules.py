"""What an engine can do with structured programs, which run over all pairs of positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from equitangents.kernels.structured.batch import Batch
from equitangents.kernels.structured.program import StructuredProgram

Pair = tuple[Any, Any]


class StructuredRules(ABC):
    """Kernels of structured programs by one engine, in double precision, outside of JAX programs."""

    @abstractmethod
    def obstacle(self, program: StructuredProgram) -> str | None:
        """Why the engine cannot run `program`, or None if it can."""

    @abstractmethod
    def kernels(self, program: StructuredProgram, one: Batch, other: Batch | None) -> Pair:
        """(NNGP, NTK) between two sets of inputs (None: the first with itself, at half the cost), each (N1, N2)."""

    @abstractmethod
    def diagonal(self, program: StructuredProgram, batch: Batch) -> Pair:
        """(NNGP, NTK) of every input with itself, each (N,)."""

    @abstractmethod
    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes that a run holds beyond inputs and results."""
