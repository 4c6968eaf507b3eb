"""Accelerated sketch-and-project: each step solves the equations of one block of rows, with momentum between steps.

For a block B of b of N rows, D ≈ (Θ_BB + δ)⁻¹: w = z − η D (Θ_B: z + δ z_B − Y_B) on B, v ← βv + (1 − β)z − γη D(…),
z ← αv + (1 − α)w, with µ = min(δ/unit, b/N), ν = N/b, β = 1 − √(µ/ν), γ = 1/√(µν), α = 1/(1 + γν). Source: Rathore,
Frangella, Yang, Dereziński & Udell 2024 (ASkotch, arXiv 2407.10070). Besides a block, memory holds four vectors for
each right-hand side. A sweep takes every row once, in random order, and as many entries as Θ has.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError
from equitangents.solvers.conjugate_gradients import DIVERGED
from equitangents.solvers.definiteness import refused
from equitangents.solvers.finite_time import AtTheEnd
from equitangents.solvers.lanczos import largest_eigenvalue
from equitangents.solvers.low_rank_factors import LowRank, nystrom_sketch
from equitangents.solvers.matrices import ArrayMatrix, SymmetricMatrix, spans
from equitangents.solvers.method import TOLERANCE, Answer, Cost, Method, Prepared, Task, check_iterations
from equitangents.solvers.system import System, rounding_of
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

_MOST = 4096  # rows of a block, if not told otherwise
_FEWEST = 128
_PARTS = 20  # blocks that N rows make, between these bounds
_EXPECTED = 60  # sweeps that forecasts assume
_POWERS = 10  # steps of the power iteration for the step size
_RESTARTED = 100.0  # growth of the residual in a sweep at which the momentum is dropped
_STALLED, _FALL = 200, 0.99  # sweeps over which the lowest residual must fall below this part of itself

Project = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SketchAndProject(Method):
    """Block by block, where memory is short: neither Θ nor a preconditioner of N rows is kept.

    block: rows of a block; None, a twentieth of N, from 128 to 4,096. rank: None, blocks are solved exactly by
    Cholesky; else by a Nyström approximation of this rank, as in ASkotch, for blocks that are too large for it.
    tolerance: of the relative residual |Y − (Θ+δ)α|/|Y| of every right-hand side, checked by a product with all of Θ.
    max_sweeps: passes over the rows at most; it ends before where the lowest residual has not fallen by 1 % in 200
    sweeps. seed: of the order of rows. It needs a ridge, which sets its speed.
    """

    block: int | None = None
    rank: int | None = None
    tolerance: float = TOLERANCE
    max_sweeps: int = 1000
    seed: int = 0

    name: ClassVar[str] = "sketch-and-project"

    def __post_init__(self) -> None:
        check_iterations(self.tolerance, self.max_sweeps, "max_sweeps")
        for name, least in (("block", 1), ("rank", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None:
                check_whole(name, value, least)

    def cost(self, task: Task) -> Cost:
        """Sweeps over all entries, none of which is mirrored, and a factor of every block each time."""
        n, b = task.size, self.block_of(task.size)
        rank = b if self.rank is None else min(self.rank, b)
        memory = 8 * (3 * b * b + b * min(task.tile, n) + 8 * n * task.outputs)
        factor = b**3 / 3 if self.rank is None else (4.0 + 2 * _POWERS) * b * b + 2.0 * b * rank**2
        return Cost(memory, _EXPECTED * (n / b) * factor, 2.0 * _EXPECTED)

    def block_of(self, size: int) -> int:
        """Rows of a block, for so many in all."""
        return min(size, self.block or min(_MOST, max(_FEWEST, size // _PARTS)))

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """Nothing is computed before a solution is asked for."""
        return _Sweeping(self, system, limit)


class _Sweeping(AtTheEnd):
    def __init__(self, method: SketchAndProject, system: System, limit: int) -> None:
        super().__init__(system, method.tolerance, limit)
        self._method = method

    @cached_property
    def _largest(self) -> float:
        return largest_eigenvalue(self.system)

    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y by sweeps."""
        m, system = self._method, self.system
        if not system.delta > 0:
            raise InvalidArgumentError(
                "solver is 'sketch-and-project', whose speed comes from the ridge, and the ridge is 0; give a ridge, "
                "such as 1e-3, or take solver='pcg' or 'out-of-core'"
            )
        found = _sweep(system, targets, m, rounding_of(self._largest))
        worst = float(np.max(found.residuals))
        if not found.solved:
            verb = "diverges and stops" if worst > DIVERGED else "stands still and stops" if found.stalled else "ends"
            logger.warning("sketch-and-project %s: relative residual %.1e after %d sweeps", verb, worst, found.sweeps)
            raise InvalidArgumentError(
                f"sketch-and-project {verb} at a relative residual of {worst:.1e} after {found.sweeps} sweeps, above "
                f"the tolerance {m.tolerance:g}; raise the ridge (now {system.ridge:g}), block (now "
                f"{m.block_of(system.size)}), max_sweeps or tolerance, or take solver='pcg'"
            )
        passes = found.sweeps + found.checks
        return Answer(
            found.solution,
            residual=worst,
            smallest=system.delta,
            largest=self._largest,
            precision=f"float64 on {system.matrix.dtype.name} entries",
            iterations=found.steps,
            rank=m.rank,
            notes=(
                f"blocks of {m.block_of(system.size)} rows, an iteration each; {passes} passes over the matrix, "
                f"{found.checks} of them to check the residual",
                "the smallest eigenvalue is taken to be the ridge's, so that the condition is at most this",
            ),
        )


@dataclass(frozen=True)
class _Swept:
    """A solution, its relative residuals computed anew, whether it is solved, and what that took.

    stalled: whether it was given up, as the residual had not fallen for many sweeps.
    """

    solution: np.ndarray
    residuals: np.ndarray
    solved: bool
    sweeps: int
    steps: int
    checks: int
    stalled: bool = False


def _sweep(system: System, targets: np.ndarray, method: SketchAndProject, floor: float) -> _Swept:
    """Sweeps until a check finds every column solved, or as far as rounding allows; checks come when blocks say so."""
    n, b = system.size, method.block_of(system.size)
    rng = np.random.default_rng(method.seed)
    nu = n / b
    mu = min(system.delta / system.unit, 1 / nu) if system.unit > 0 else 1 / nu
    beta, gamma = 1 - math.sqrt(mu / nu), 1 / math.sqrt(mu * nu)
    alpha = 1 / (1 + gamma * nu)
    norms = np.linalg.norm(targets, axis=0)
    divisor = np.where(norms > 0, norms, 1.0)
    z, v, w = (np.zeros_like(targets) for _ in range(3))
    steps = checks = 0
    lowest, fell = math.inf, 0  # of residuals, and the sweep in which they last fell
    before, wanted, relative = math.inf, 1.0, np.full(len(norms), math.inf)
    for sweep in range(1, method.max_sweeps + 1):
        squares = np.zeros(len(norms))
        for rows in _blocks(system.matrix, b, rng):
            residual = _rows_product(system.matrix, rows, z) + system.delta * z[rows] - targets[rows]
            squares += (residual**2).sum(axis=0)
            step = _projected(system, rows, method, rng, residual)
            w = z.copy()
            w[rows] -= step
            v *= beta
            v += (1 - beta) * z
            v[rows] -= gamma * step
            z = alpha * v + (1 - alpha) * w
            steps += 1
        met = np.sqrt(squares)  # of blocks, each before its step: about the residual of the sweep
        size = float(np.max(met / divisor))
        if not size <= DIVERGED:  # at first it is at most about 1
            left = np.linalg.norm(targets - system.product(w), axis=0)
            return _Swept(w, np.maximum(left, met) / divisor, False, sweep, steps, checks + 1)
        if size > _RESTARTED * before:
            v, z = w.copy(), w.copy()
        before = size
        if size < _FALL * lowest:
            lowest, fell = size, sweep
        stalled = sweep - fell >= _STALLED
        if sweep % 10 == 0:
            logger.info("sketch-and-project: %d sweeps, relative residual about %.1e", sweep, size)
        bound = np.maximum(method.tolerance * norms, floor * np.linalg.norm(w, axis=0))
        if (met <= wanted * np.maximum(bound, np.finfo(float).tiny)).all() or stalled or sweep == method.max_sweeps:
            left = np.linalg.norm(targets - system.product(w), axis=0)
            checks += 1
            relative = left / divisor
            if (left <= bound).all():
                return _Swept(w, relative, True, sweep, steps, checks)
            if stalled:
                return _Swept(w, relative, False, sweep, steps, checks, stalled)
            wanted /= 2
    return _Swept(w, relative, False, method.max_sweeps, steps, checks)


def _blocks(matrix: SymmetricMatrix, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """All rows in random order, `size` at a time; rows that are read together stay together."""
    together = min(matrix.strip, size)
    starts = rng.permutation(np.arange(0, matrix.size, together))
    order = np.concatenate([np.arange(start, min(start + together, matrix.size)) for start in starts])
    return (np.sort(order[span]) for span in spans(matrix.size, size))


def _rows_product(matrix: SymmetricMatrix, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Θ_B: V, a tile of columns at a time, in float64."""
    total = np.zeros((len(rows), vectors.shape[1]))
    for span in spans(matrix.size, matrix.tile):
        entries = matrix.rectangle(rows, np.arange(span.start, span.stop)).astype(np.float64, copy=False)
        total += entries @ vectors[span]
    return matrix.checked(total)


def _projected(
    system: System, rows: np.ndarray, method: SketchAndProject, rng: np.random.Generator, residual: np.ndarray
) -> np.ndarray:
    """η D R for the residual R of a block: solved by Cholesky, or approximately at low rank."""
    entries = system.matrix.rectangle(rows, rows).astype(np.float64)
    entries = (entries + entries.T) / 2
    entries[np.diag_indices(len(rows))] += system.delta
    if method.rank is None or method.rank >= len(rows):
        try:
            factor = scipy.linalg.cho_factor(entries, lower=True, overwrite_a=True)
        except scipy.linalg.LinAlgError:
            raise refused(system, math.inf) from None
        return np.asarray(scipy.linalg.cho_solve(factor, residual))
    entries[np.diag_indices(len(rows))] -= system.delta
    block = ArrayMatrix(entries, system.matrix.words)
    approximate = LowRank(nystrom_sketch(block, method.rank, seed=int(rng.integers(2**31))), system.delta)
    vector, length = rng.normal(size=(len(rows), 1)), 1.0
    for _ in range(_POWERS):
        vector = approximate.apply(entries @ vector + system.delta * vector)
        length = float(np.linalg.norm(vector))
        vector /= length
    return approximate.apply(residual) / length
