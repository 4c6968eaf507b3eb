"""The reference engine as an engine: every program, in pure JAX on any device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from equitangents.kernels.engines.protocol import Engine, Pair
from equitangents.kernels.engines.reference import run, tile
from equitangents.kernels.engines.reference.rotation_tiles import TiledRotations
from equitangents.kernels.engines.reference.structured import TiledStructured
from equitangents.kernels.fields import Part
from equitangents.kernels.program import Program


class ReferenceEngine(Engine):
    """JAX throughout: runs every network, and can be differentiated."""

    name = "reference"
    differentiable = True
    any_norms = True
    carries_angles = True
    has_fields = True
    rotations = TiledRotations()
    structured = TiledStructured()

    def description(self) -> str:
        return f"JAX on {jax.default_backend()}"

    def obstacle(self, program: Program, dtype: Any, part: Part | None = None) -> str | None:
        return None

    def kernels(
        self,
        program: Program,
        x1: np.ndarray,
        x2: np.ndarray | None,
        part: Part | None = None,
        any_norms: bool = False,
    ) -> Pair:
        return run.kernels(program, x1, x2, part)

    def diagonal(self, program: Program, x: np.ndarray, part: Part | None = None) -> Pair:
        return run.diagonal(program, x, part)

    def traced(self, program: Program, x1: Any, x2: Any) -> Pair:
        return run.traced(program, x1, x1 if x2 is None else x2)

    def working_bytes(
        self, program: Program, channels: int, n1: int, n2: int, itemsize: int, part: Part | None = None
    ) -> int:
        return tile.working_bytes(run.plan_of(program, part), channels, n1, n2, itemsize)
