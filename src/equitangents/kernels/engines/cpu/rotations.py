"""Programs on rotations for the CPU engine: their plans, signals, and runs over all pairs or listed pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.engines.cpu import activations, descriptor, run
from equitangents.kernels.engines.cpu.activations import at_any_norms
from equitangents.kernels.engines.cpu.descriptor import RelativeRotations, RotationPlan
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import pairs_in_tile
from equitangents.kernels.levels import GridLevel
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.plans import OffsetPlan, Stage, unrolled
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import Rings, RotationSections, rings_of
from equitangents.kernels.scales import law_of


class CompiledRotations(RotationRules):
    """Kernels of signals as vectors, correlated and passed through all layers in C++."""

    def obstacle(self, program: RotationSections) -> str | None:
        steps = OffsetPlan((_at_one_position(()),), _LABEL, 1.0, unrolled(program.field + program.vector))
        if activations.has_tables(steps):
            return "it has no dual of Quadrature on rotations"
        return descriptor.obstacle(steps)

    def kernels(
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray | None,
        paired: bool = False,
        any_norms: bool = False,
    ) -> Pair:
        plan = plan_of(program, resolution, x1.dtype.itemsize, any_norms)
        a = vectors(x1)
        b = x2 if x2 is None else vectors(x2)
        return run.listed(plan, a, b) if paired else run.kernels(plan, a, b)

    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, paired: bool = False) -> Pair:
        """As `kernels`, inside a JAX program; not differentiable."""
        plan, law = plan_of(program, resolution, x1.dtype.itemsize), law_of(program)
        a = vectors(x1)
        b = x2 if x2 is None else vectors(x2)
        return run.traced(plan, law, a, b, listed=paired)

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes in addition to inputs and results: scaled and prepared signals, quadrature, each thread's tile."""
        plan = plan_of(program, resolution, itemsize)
        channels *= program.bandlimit**2
        scaled = (n1 + (n2 or 0)) * channels * itemsize
        return scaled + run.working_bytes(plan, channels, n1, n2 or n1, itemsize)


def vectors(x: Any) -> Any:
    """Signals (N, B², C) as vectors (N, B²·C), whose kernel is the mean of products over the sphere and channels."""
    return (x * np.asarray(np.sqrt(x.shape[1] / (4 * np.pi)), x.dtype)).reshape(len(x), -1)


_LABEL = FrozenArray(np.zeros(1, np.int32))  # of the single position of vectors


def _at_one_position(ops: tuple[Op, ...], rotations: int = 1) -> Stage:
    """A stage on fields of one position, at `rotations` rotations."""
    steps = unrolled(ops)
    return Stage(steps, (GridLevel((), wrap=True),) * (len(steps) + 1), FrozenArray(np.zeros((rotations, 0), np.int32)))


@lru_cache(maxsize=64)  # a kernel to a tolerance runs at a score of resolutions
def plan_of(program: RotationSections, resolution: int, itemsize: int, any_norms: bool = False) -> RotationPlan:
    """The engine's plan; raises MemoryLimitError if it is too large."""
    if any_norms:
        found: RotationPlan = at_any_norms(plan_of(program, resolution, 8))
        return found
    pairs_in_tile(program, resolution, itemsize)
    rings = rings_of(program.bandlimit, program.group, resolution)
    arrays = _of_circles(rings, program.bandlimit) if isinstance(program.group, RotationGroup) else _of_list(rings)
    rotations = RelativeRotations(program.bandlimit, *arrays)
    return RotationPlan(
        (_at_one_position(program.field, rotations.count),), _LABEL, 1.0, unrolled(program.vector), rotations=rotations
    )


def _of_circles(rings: Rings, bandlimit: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(azimuths, waves, mixing, weights); only factors that are non-zero by their degree, in pairs."""
    waves = rings.fixed["azimuths"]
    orders = np.abs(np.arange(1 - bandlimit, bandlimit))
    row, column, degree = np.meshgrid(orders, orders, np.arange(1, bandlimit), indexing="ij")
    mixing = rings.scanned["mixing"].reshape(len(rings.scanned["weights"]), *row.shape[:2], 2, bandlimit - 1)
    pairs = np.moveaxis(mixing, 3, -1)[:, degree >= np.maximum(row, column)]
    return len(waves), waves[: len(waves) // 2 + 1], pairs, rings.scanned["weights"][:, 0]


def _of_list(rings: Rings) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    return 0, np.zeros((1, 1)), rings.scanned["matrices"][0], rings.scanned["weights"][0]
