"""The CPU engine: programs that run by pair offset, in C++ on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.kernels.engines.cpu import activations, descriptor, run
from equitangents.kernels.engines.cpu.activations import at_any_norms
from equitangents.kernels.engines.cpu.rotations import CompiledRotations
from equitangents.kernels.engines.cpu.structured import CompiledStructured
from equitangents.kernels.engines.protocol import Engine, Pair, Plan
from equitangents.kernels.plans import FieldPlan, OffsetPlan, field_plan, plan
from equitangents.kernels.program import Program
from equitangents.kernels.result import READOUT, Part
from equitangents.kernels.scales import law_of


class CpuEngine(Engine):
    """Compiled C++, vectorised across inputs."""

    name = "cpu"
    platforms = ("cpu",)
    any_norms = True
    checks_kernels = True
    has_fields = True
    quick_work = 1e9
    rotations = CompiledRotations()
    structured = CompiledStructured()

    def why_unavailable(self) -> str | None:
        return run.why_unavailable()

    def description(self) -> str:
        return run.description()

    def obstacle(self, program: Program, dtype: Any, part: Part | None = None) -> str | None:
        steps = self.plan(program) if part is None else self.field_plan(program, part).plan
        found = descriptor.obstacle(steps)
        if found is None and part is not None and steps.form != "pairs" and activations.has_tables(steps):
            return "it has no dual of Quadrature in kernel fields"
        return found

    def leaves_out(self, program: Program) -> bool:
        return activations.has_tables(self._offset_plan(program))

    def plan(self, program: Program) -> Plan:
        return plan(program, staged=True)

    def field_plan(self, program: Program, part: Part) -> FieldPlan:
        return field_plan(program, part, staged=True)

    def kernels(
        self,
        program: Program,
        x1: np.ndarray,
        x2: np.ndarray | None,
        part: Part | None = None,
        any_norms: bool = False,
    ) -> Pair:
        steps = self._offset_plan(program, part)
        steps = at_any_norms(steps) if any_norms else steps
        return run.kernels(steps, x1, x2) if part is None else run.field_kernels(steps, part, x1, x2)

    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        return run.listed(self._offset_plan(program, part), x, None, part or READOUT)

    def traced(self, program: Program, x1: Any, x2: Any) -> Pair:
        return run.traced(self._offset_plan(program), law_of(program), x1, x2)

    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        return run.working_bytes(self._offset_plan(program, part), channels, n1, n2, itemsize, part or READOUT)

    def computed_in(self, program: Program, channels: int, dtype: str) -> str:
        return "float64" if activations.computed_in_double(self._offset_plan(program), channels) else dtype

    def _offset_plan(self, program: Program, part: Part | None = None) -> OffsetPlan:
        found = self.plan(program) if part is None else self.field_plan(program, part).plan
        assert found.form != "pairs"  # see `obstacle`
        return found
