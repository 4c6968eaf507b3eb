"""The CPU engine as an engine: programs along fibres, in C++ on all cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.kernels.engines.cpu import activations, descriptor, library, run
from equitangents.kernels.engines.cpu.activations import at_any_norms
from equitangents.kernels.engines.cpu.rotations import CompiledRotations
from equitangents.kernels.engines.cpu.structured import CompiledStructured
from equitangents.kernels.engines.protocol import Engine, Pair, Steps
from equitangents.kernels.fields import FieldPlan, Part, field_plan, staged_field_plan
from equitangents.kernels.operations import NoFibresError
from equitangents.kernels.plans import plan
from equitangents.kernels.program import Program
from equitangents.kernels.scales import law_of
from equitangents.kernels.stages import AlongFibres, staged


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
        return library.why_unavailable()

    def description(self) -> str:
        return library.description()

    def obstacle(self, program: Program, dtype: Any, part: Part | None = None) -> str | None:
        steps = self.steps(program) if part is None else self.field_steps(program, part).steps
        found = descriptor.obstacle(steps)
        if found is None and part is not None and steps.form != "pairs" and activations.has_tables(steps):
            return "it has no dual of Quadrature in kernel fields"
        return found

    def leaves_out(self, program: Program) -> bool:
        return activations.has_tables(self._fibres(program))

    def steps(self, program: Program) -> Steps:
        found = plan(program)
        if found.form == "pairs":
            try:
                return staged(program)
            except NoFibresError as error:
                return replace(found, why=str(error))
        return found

    def field_steps(self, program: Program, part: Part) -> FieldPlan:
        found = field_plan(program, part)
        if found.steps.form == "pairs":
            try:
                return staged_field_plan(program, part)
            except NoFibresError as error:
                return replace(found, steps=replace(found.steps, why=str(error)))
        return found

    def kernels(
        self,
        program: Program,
        x1: np.ndarray,
        x2: np.ndarray | None,
        part: Part | None = None,
        any_norms: bool = False,
    ) -> Pair:
        if part is None:
            steps = self._fibres(program)
            return run.kernels(at_any_norms(steps) if any_norms else steps, x1, x2)
        field = self.field_steps(program, part)
        if any_norms:
            assert field.steps.form != "pairs"  # see `obstacle`
            field = replace(field, steps=at_any_norms(field.steps))
        return run.field_kernels(field, x1, x2)

    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        if part is None:
            return run.listed(self._fibres(program), x)
        return run.field_diagonal(self.field_steps(program, part), x)

    def traced(self, program: Program, x1: Any, x2: Any) -> Pair:
        return run.traced(self._fibres(program), law_of(program), x1, x2)

    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        if part is None:
            return run.working_bytes(self._fibres(program), channels, n1, n2, itemsize)
        return run.field_working_bytes(self.field_steps(program, part), channels, n1, n2, itemsize)

    def computed_in(self, program: Program, channels: int, dtype: str) -> str:
        return "float64" if activations.computed_in_double(self._fibres(program), channels) else dtype

    def _fibres(self, program: Program) -> AlongFibres:
        found = plan(program)
        steps = self.steps(program) if found.form == "pairs" else found
        assert steps.form != "pairs"  # see `obstacle`
        return steps
