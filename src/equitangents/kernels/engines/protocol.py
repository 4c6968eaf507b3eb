"""Interface of engines: run field programs, name obstacles, forecast memory.

An engine knows programs, not layers. It may also run programs on rotations (`rotations`) and structured ones
(`structured`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.kernels.plans import FieldPlan, OffsetPlan, PairPlan, field_plan, plan
from equitangents.kernels.program import Program
from equitangents.kernels.result import Part
from equitangents.kernels.rotations import RotationSections
from equitangents.kernels.structured import MaskedBatch, StructuredProgram

Pair = tuple[Any, Any]
Plan = OffsetPlan | PairPlan


class Engine(ABC):
    """Kernels of field programs by one implementation on one kind of device.

    With `part`, methods are about the kernel field at these pairs of positions, whose arrays have the additional axes
    `part.tail`.
    """

    name: ClassVar[str]
    platforms: ClassVar[tuple[str, ...]] = ()  # of JAX, on which it is the default
    differentiable: ClassVar[bool] = False  # whether `traced` has derivatives; if not, those of the reference are taken
    any_norms: ClassVar[bool] = False  # whether `kernels` takes any_norms=True: digits are kept at any two norms
    carries_angles: ClassVar[bool] = False  # whether nearly parallel inputs keep theirs (`kernels.angular`)
    checks_kernels: ClassVar[bool] = False  # whether `kernels` refuses inputs whose kernels are not finite
    has_fields: ClassVar[bool] = False  # whether its methods take a `part`; others never get one
    quick_work: ClassVar[float] = 2e8  # element-layers and multiply-adds that take a second or so
    rotations: ClassVar[RotationRules | None] = None  # how it runs programs on rotations; None if it cannot
    structured: ClassVar[StructuredRules | None] = None  # how it runs structured programs; None if it cannot

    def why_unavailable(self) -> str | None:
        """Why the engine cannot run on this machine, or None if it can."""
        return None

    @abstractmethod
    def description(self) -> str:
        """Description of the engine on this machine."""

    @abstractmethod
    def obstacle(self, program: Program, dtype: DTypeLike, part: Part | None = None) -> str | None:
        """Why it cannot run `program` in `dtype`, such as "it has no dual of Quadrature", or None if it can."""

    def leaves_out(self, program: Program) -> bool:
        """Whether kernels may be NaN that the reference engine can compute; for each input all pairs are, or none."""
        return False

    def plan(self, program: Program) -> Plan:
        """The plan of a run of `program`."""
        return plan(program)

    @abstractmethod
    def kernels(
        self,
        program: Program,
        x1: np.ndarray,
        x2: np.ndarray | None,
        part: Part | None = None,
        any_norms: bool = False,
    ) -> Pair:
        """(NNGP, NTK), (N1, N2) arrays in the inputs' precision, between x1, (N1, *positions, C), and x2 (None: x1)."""

    @abstractmethod
    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        """(NNGP, NTK) of every input with itself, each (N,)."""

    @abstractmethod
    def traced(self, program: Program, x1: ArrayLike, x2: ArrayLike | None) -> Pair:
        """As `kernels`, for traced JAX arrays of any norms inside a JAX program."""

    @abstractmethod
    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        """Bytes of a run in addition to inputs and results."""

    def field_plan(self, program: Program, part: Part) -> FieldPlan:
        """The plan of a run of a part of the kernel field of `program`."""
        return field_plan(program, part)

    def computed_in(self, program: Program, channels: int, dtype: str) -> str:
        """The working precision for inputs of `dtype`."""
        return dtype


class StructuredRules(ABC):
    """Kernels of structured programs by one engine, in double precision, outside JAX programs."""

    @abstractmethod
    def obstacle(self, program: StructuredProgram) -> str | None:
        """Why the engine cannot run `program`, or None if it can."""

    @abstractmethod
    def kernels(self, program: StructuredProgram, one: MaskedBatch, other: MaskedBatch | None) -> Pair:
        """(NNGP, NTK) between two sets of inputs (None: the first with itself, at half the cost), each (N1, N2)."""

    @abstractmethod
    def diagonal(self, program: StructuredProgram, batch: MaskedBatch) -> Pair:
        """(NNGP, NTK) of every input with itself, each (N,)."""

    @abstractmethod
    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of a run in addition to inputs and results."""


class RotationRules(ABC):
    """Kernels of programs on rotations by one engine; signals are (N, B², C).

    Kernels are between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2); if `paired`, of the
    pairs (x1[p], x2[p]), each (P,).
    """

    differentiable = False  # whether traced kernels have derivatives; if not, those of the reference engine are taken

    @abstractmethod
    def obstacle(self, program: RotationSections) -> str | None:
        """Why the engine cannot run `program`, or None if it can."""

    @abstractmethod
    def kernels(
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray | None,
        paired: bool = False,
        any_norms: bool = False,
    ) -> Pair:
        """(NNGP, NTK) of NumPy arrays, in their precision."""

    @abstractmethod
    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, paired: bool = False) -> Pair:
        """As `kernels`, inside a JAX program."""

    @abstractmethod
    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes of a run in addition to inputs and results."""
