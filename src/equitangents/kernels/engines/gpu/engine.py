"""The GPU engine as an engine: programs along fibres with windows, in CUDA C++."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents.kernels.engines import gpu
from equitangents.kernels.engines.protocol import Engine, Pair
from equitangents.kernels.fields.part import Part
from equitangents.kernels.plans.plan import FibrePlan, plan, tables_of
from equitangents.kernels.program import Program


class GpuEngine(Engine):
    """CUDA C++, written for each network and compiled when it is first used."""

    name = "gpu"
    platforms = ("gpu",)
    quick_work = 1e11

    def why_unavailable(self) -> str | None:
        return gpu.why_unavailable()

    def description(self) -> str:
        return gpu.description()

    def untried(self) -> bool:
        return not gpu.emulated()

    def content(self) -> str:
        return gpu.source_key()

    def obstacle(self, program: Program, dtype: Any, part: Part | None = None) -> str | None:
        return gpu.obstacle(plan(program), dtype)

    def kernels(self, program: Program, x1: np.ndarray, x2: np.ndarray | None, part: Part | None = None) -> Pair:
        steps = _fibres(program)
        return gpu.tiled_kernels(steps, tables_of(steps, program), x1, x2)

    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        steps = _fibres(program)
        return gpu.tiled_diagonal(steps, tables_of(steps, program), x)

    def traced(self, program: Program, x1: Any, x2: Any) -> Pair:
        steps = _fibres(program)
        tables = {key: jnp.asarray(table) for key, table in tables_of(steps, program).items()}
        return gpu.kernels(steps, tables, x1, x2)

    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        return gpu.working_bytes(_fibres(program), channels, n1, n2, itemsize)

    def calibration_work(self) -> float:
        return 5e5 if gpu.emulated() else 1e8


def _fibres(program: Program) -> FibrePlan:
    steps = plan(program)
    assert steps.form == "fibre"  # see `obstacle`
    return steps
