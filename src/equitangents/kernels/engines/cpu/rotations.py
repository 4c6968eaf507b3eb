"""Programs on rotations as the CPU engine runs them: their plans, their signals, and runs of all pairs or of lists."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.groups.rotation_group import RotationGroup, euler_grid, from_euler_angles
from equitangents.kernels.engines.cpu import activations, descriptor, run
from equitangents.kernels.engines.cpu.activations import at_any_norms
from equitangents.kernels.engines.cpu.descriptor import RotationPlan, SphereMean, SphereTurns, Turns, ZonalMean
from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import pairs_in_tile
from equitangents.kernels.levels import GridLevel, TableLevel
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.plans import FibrePlan, Stage, unrolled
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import Rings, RotationSections, Zonal, rings_of, sphere_resolution
from equitangents.kernels.scales import law_of
from equitangents.sphere import gauss_legendre
from equitangents.sphere.harmonics import polynomials
from equitangents.sphere.transforms import wigner


class CompiledRotations(RotationRules):
    """Signals as vectors, correlated and carried through all layers in C++."""

    def obstacle(self, program: RotationSections) -> str | None:
        pointwise = tuple(op for op in program.sphere if not isinstance(op, Zonal))
        steps = _at_once(pointwise + program.field, program.vector)
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
        a = inputs(program, resolution, x1)
        b = x2 if x2 is None else inputs(program, resolution, x2)
        return run.listed(plan, a, b) if paired else run.kernels(plan, a, b)

    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None, paired: bool = False) -> Pair:
        """As `kernels`, inside a JAX program; without derivatives."""
        plan, law = plan_of(program, resolution, x1.dtype.itemsize), law_of(program)
        a = inputs(program, resolution, x1)
        b = x2 if x2 is None else inputs(program, resolution, x2)
        return run.traced(plan, law, a, b, listed=paired)

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes held beyond inputs and results: signals scaled and prepared, the quadrature, and each thread's tile."""
        plan, points = plan_of(program, resolution, itemsize), 1
        if program.sphere:
            points = plan.positions
        else:
            channels *= program.bandlimit**2
        scaled = (n1 + (n2 or 0)) * points * channels * itemsize
        return scaled + run.working_bytes(plan, channels, n1, n2 or n1, itemsize)


def inputs(program: RotationSections, resolution: int, x: Any) -> Any:
    """Signals (N, B², C) as the engine takes them: at the points of the sphere, (N, points, C), or as vectors.

    The kernel of vectors (N, B²·C) is the mean of products over the sphere and channels.
    """
    if not program.sphere:
        return (x * np.asarray(np.sqrt(x.shape[1] / (4 * np.pi)), x.dtype)).reshape(len(x), -1)
    basis = _basis(program.bandlimit, sphere_resolution(program.bandlimit, resolution)).astype(x.dtype)
    if isinstance(x, jax.Array):
        return jnp.einsum("pk,nkc->npc", basis, x, precision=jax.lax.Precision.HIGHEST)
    return np.matmul(basis, x)


_LABEL = FrozenArray(np.zeros(1, np.int32))  # of the single position of vectors


def _at_one_position(ops: tuple[Op, ...], rotations: int = 1) -> Stage:
    """A stage on fields of one position, at so many rotations."""
    steps = unrolled(ops)
    return Stage(steps, (GridLevel((), wrap=True),) * (len(steps) + 1), FrozenArray(np.zeros((rotations, 0), np.int32)))


def _at_once(field: tuple[Op, ...], vector: tuple[Op, ...]) -> FibrePlan:
    """All of it on plain vectors: what a flattening readout makes of a network."""
    return FibrePlan((_at_one_position(()),), _LABEL, 1.0, unrolled(field + vector))


@lru_cache(maxsize=16)
def plan_of(program: RotationSections, resolution: int, itemsize: int, any_norms: bool = False) -> FibrePlan:
    """The engine's plan; raises MemoryLimitError if it is too large."""
    if any_norms:
        found: FibrePlan = at_any_norms(plan_of(program, resolution, 8))
        return found
    pairs_in_tile(program, resolution, itemsize)
    if program.sphere:
        return _on_sphere(program, resolution)
    if program.readout == "flatten":
        return _at_once(program.field, program.vector)
    rings = rings_of(program.bandlimit, program.group, resolution)
    arrays = _of_circles(rings, program.bandlimit) if isinstance(program.group, RotationGroup) else _of_list(rings)
    turns = Turns(program.bandlimit, *arrays)
    return RotationPlan(
        (_at_one_position(program.field, turns.count),), _LABEL, 1.0, unrolled(program.vector), turns=turns
    )


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


def _on_sphere(program: RotationSections, resolution: int) -> FibrePlan:
    """The engine's plan for a program on fields over the sphere."""
    s = sphere_resolution(program.bandlimit, resolution)
    grid = gauss_legendre(s)
    kept = (op for op in program.sphere if not op.is_total)
    ops = tuple(ZonalMean(FrozenArray(op.coefficients.array[:s])) if isinstance(op, Zonal) else op for op in kept)
    degrees = max([program.bandlimit, *(op.coefficients.array.size for op in ops if isinstance(op, ZonalMean))])
    northern, count = (s + 1) // 2, s * (2 * s - 1)
    turns = SphereTurns(
        program.bandlimit,
        s,
        _legendre(grid.points[:northern, 0], degrees),
        grid.ring_weights[:northern],
        *_turns(program, resolution, degrees),
    )
    after = unrolled(program.field)
    steps: tuple[Any, ...] = (*ops, SphereMean(FrozenArray(grid.weights.ravel() / (4 * np.pi))), *after)
    points, one = (TableLevel(FrozenArray(np.arange(n, dtype=np.int32)[None])) for n in (count, 1))
    levels = (*[points] * (len(ops) + 1), *[one] * (len(after) + 1))
    stage = Stage(steps, levels, FrozenArray(np.zeros(turns.count, np.int32)))
    vector, flattens = unrolled(program.vector), program.readout == "flatten"
    return RotationPlan((stage,), _LABEL, 1.0, vector, turns=turns, flattens=flattens)


@lru_cache(maxsize=4)
def _basis(bandlimit: int, s: int) -> np.ndarray:
    return polynomials(gauss_legendre(s).points.reshape(-1, 3), bandlimit)


def _legendre(x: np.ndarray, degrees: int) -> np.ndarray:
    """(degrees, degrees, points): Y_lm for 0 ≤ m ≤ l at points of azimuth 0."""
    harmonics = polynomials(x, degrees)
    found = np.zeros((degrees, degrees, len(x)))
    for l in range(degrees):
        found[l, : l + 1] = harmonics[:, l * l + l : (l + 1) ** 2].T
    return found


def _turns(program: RotationSections, resolution: int, degrees: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(azimuths, matrices, weights, signs) of all rotations of the quadrature; to flatten, of the identity."""
    azimuths, cosine, weights, signs = np.zeros(1), np.ones(1), np.ones(1), 1
    if program.readout == "pool":
        assert isinstance(program.group, RotationGroup)
        signs = 2 if program.group.reflections else 1
        azimuths, cosine, weights = euler_grid(resolution)
        weights = weights / (len(azimuths) ** 2 * signs)
    back = from_euler_angles(np.stack([0 * cosine, -np.arccos(cosine), 0 * cosine], axis=-1))
    blocks = []
    for l, block in enumerate(wigner(back, degrees)):
        orders = np.arange(l + 1)
        for kept in (l + orders, l - orders[1:]):
            blocks.append(block[:, kept][:, :, kept].reshape(len(cosine), -1))
    return azimuths, np.concatenate(blocks, axis=1), weights, signs
