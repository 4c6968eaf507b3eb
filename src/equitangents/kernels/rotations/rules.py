"""What an engine can do with programs on rotations, whose integrals are sampled at a resolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from equitangents.kernels.rotations.program import RotationProgram

Pair = tuple[Any, Any]


class RotationRules(ABC):
    """Kernels of programs on rotations by one engine; signals are (N, B², C)."""

    differentiable = False  # whether traced kernels have derivatives; if not, those of the reference engine are taken

    @abstractmethod
    def obstacle(self, program: RotationProgram) -> str | None:
        """Why the engine cannot run `program`, or None if it can."""

    @abstractmethod
    def kernels(self, program: RotationProgram, resolution: int, x1: np.ndarray, x2: np.ndarray | None) -> Pair:
        """(NNGP, NTK) between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2)."""

    @abstractmethod
    def listed(
        self, program: RotationProgram, resolution: int, x1: np.ndarray, x2: np.ndarray, first: Any, second: Any
    ) -> Pair:
        """(NNGP, NTK) of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""

    @abstractmethod
    def traced(self, program: RotationProgram, resolution: int, x1: Any, x2: Any = None) -> Pair:
        """As `kernels`, inside a JAX program."""

    @abstractmethod
    def traced_listed(
        self, program: RotationProgram, resolution: int, x1: Any, x2: Any, first: Any, second: Any
    ) -> Pair:
        """As `listed`, inside a JAX program."""

    @abstractmethod
    def sample_values(self, program: RotationProgram, r: int, x: np.ndarray) -> Pair:
        """(NNGP, NTK) of a few pairs of signals at resolution r, in float64; see `measured.resolve`."""

    @abstractmethod
    def products_on_sphere(self, program: RotationProgram, resolution: int, channels: int) -> int:
        """Multiply-adds of a pair at one rotation, of fields on the sphere: inner products, and means over windows."""

    @abstractmethod
    def working_bytes(
        self, program: RotationProgram, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes that a run holds beyond inputs and results."""

    @abstractmethod
    def piece(
        self, program: RotationProgram, resolution: int, n1: int, n2: int | None, itemsize: int
    ) -> tuple[int, int]:
        """Signals of both sides in the piece of work that is timed on every thread."""

    @abstractmethod
    def pieces(self, n1: int, n2: int | None, rows: int, columns: int) -> float:
        """How many such pieces follow each other on every thread."""
