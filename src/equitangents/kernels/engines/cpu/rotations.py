"""Programs on rotations as the CPU engine runs them: their plans, their signals, and runs of all pairs or of lists."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.engines.cpu import activations, descriptor, run
from equitangents.kernels.engines.cpu.activations import at_any_norms
from equitangents.kernels.engines.cpu.descriptor import RotationPlan
from equitangents.kernels.engines.protocol import Listed, Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import pairs_in_tile
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.plans import FibrePlan, grid_levels
from equitangents.kernels.rotations import Rings, RotationSections, rings_of
from equitangents.kernels.scales import law_of

_GATHERED = 32 << 20  # bytes of signals that are gathered at a time for a list of pairs


class CompiledRotations(RotationRules):
    """Signals as vectors, correlated and carried through all layers in C++."""

    def obstacle(self, program: RotationSections) -> str | None:
        one, none = FrozenArray(np.zeros(1, np.int32)), FrozenArray(np.zeros((1, 0), np.int32))
        steps = FibrePlan((), grid_levels((), ()), none, one, 1.0, program.field + program.vector)  # on plain vectors
        if activations.has_tables(steps):
            return "it has no dual of Quadrature on rotations"
        return descriptor.obstacle(steps)

    def kernels(
        self,
        program: RotationSections,
        resolution: int,
        x1: np.ndarray,
        x2: np.ndarray | None,
        listed: Listed | None = None,
        any_norms: bool = False,
    ) -> Pair:
        plan = plan_of(program, resolution, x1.dtype.itemsize, any_norms)
        a = vectors(x1)
        b = x2 if x2 is None else vectors(x2)
        if listed is None:
            return run.kernels(plan, a, b)
        i, j = listed
        b = a if b is None else b
        nngp, ntk = np.empty(len(i), x1.dtype), np.empty(len(i), x1.dtype)
        for start in range(0, len(i), step := _pairs_at_once(a)):
            here = slice(start, start + step)
            nngp[here], ntk[here] = run.listed(plan, a[i[here]], b[j[here]])
        return nngp, ntk

    def traced(
        self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, listed: Listed | None = None
    ) -> Pair:
        """As `kernels`, inside a JAX program; without derivatives."""
        plan, law = plan_of(program, resolution, x1.dtype.itemsize), law_of(program)
        a = vectors(x1)
        b = x2 if x2 is None else vectors(x2)
        if listed is None:
            return run.traced(plan, law, a, b)
        b, count = a if b is None else b, len(listed[0])
        size = min(max(count, 1), _pairs_at_once(a))
        index = tuple(jnp.pad(jnp.asarray(i), (0, -count % size)).reshape(-1, size) for i in listed)
        nngp, ntk = jax.lax.map(lambda here: run.traced(plan, law, a[here[0]], b[here[1]], listed=True), index)
        return nngp.reshape(-1)[:count], ntk.reshape(-1)[:count]

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes held beyond inputs and results: signals scaled and prepared, the quadrature, and each thread's tile."""
        plan = plan_of(program, resolution, itemsize)
        channels *= program.bandlimit**2
        scaled = (n1 + (n2 or 0)) * channels * itemsize
        return scaled + run.working_bytes(plan, channels, n1, n2 or n1, itemsize)


def _pairs_at_once(vectors: Any) -> int:
    return max(64, _GATHERED // (math.prod(vectors.shape[1:]) * vectors.dtype.itemsize))


def vectors(x: Any) -> Any:
    """Signals (N, B², C) as vectors (N, B²·C), whose kernel is the mean of products over the sphere and channels."""
    scale = np.sqrt(x.shape[1] / (4 * np.pi))
    return (x * np.asarray(scale, x.dtype)).reshape(len(x), -1)


@lru_cache(maxsize=16)
def plan_of(program: RotationSections, resolution: int, itemsize: int, any_norms: bool = False) -> RotationPlan:
    """The engine's plan; raises MemoryLimitError if it is too large."""
    if any_norms:
        found: RotationPlan = at_any_norms(plan_of(program, resolution, 8))
        return found
    pairs_in_tile(program, resolution, itemsize)
    rings = rings_of(program.bandlimit, program.group, resolution)
    arrays = _of_circles(rings, program.bandlimit) if isinstance(program.group, RotationGroup) else _of_list(rings)
    azimuths, waves, mixing, weights = arrays
    return RotationPlan(
        program.field, program.vector, program.bandlimit, azimuths,
        FrozenArray(waves), FrozenArray(mixing), FrozenArray(weights),
    )  # fmt: skip


def _of_circles(rings: Rings, bandlimit: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(azimuths, waves, mixing, weights): of the factors those that are not zero by their degree, in pairs."""
    waves = rings.fixed["azimuths"]
    orders = np.abs(np.arange(1 - bandlimit, bandlimit))
    row, column, degree = np.meshgrid(orders, orders, np.arange(1, bandlimit), indexing="ij")
    mixing = rings.scanned["mixing"].reshape(len(rings.scanned["weights"]), *row.shape[:2], 2, bandlimit - 1)
    pairs = np.moveaxis(mixing, 3, -1)[:, degree >= np.maximum(row, column)]
    return len(waves), waves[: len(waves) // 2 + 1], pairs, rings.scanned["weights"][:, 0]


def _of_list(rings: Rings) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    matrices, weights = rings.scanned["matrices"], rings.scanned["weights"].ravel()
    kept = weights > 0  # the last ring is filled up with others
    return 0, np.zeros((1, 1)), matrices.reshape(len(weights), matrices.shape[-1])[kept], weights[kept]
