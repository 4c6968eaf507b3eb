"""Conjugate gradients, preconditioned at low rank, on Θ in memory, in stored tiles, or computed anew each step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.solvers.conjugate_gradients import Preconditioner, Unchanged, conjugate_gradients
from equitangents.solvers.definiteness import check_positive, raise_if_not_positive, refused
from equitangents.solvers.finite_time import AtTheEnd, tile_bytes
from equitangents.solvers.lanczos import extremes, largest_eigenvalue
from equitangents.solvers.low_rank_factors import LowRank, cheap_pivots, factor_on, pivoted_cholesky
from equitangents.solvers.matrices import SymmetricMatrix
from equitangents.solvers.method import TOLERANCE, Answer, Cost, Method, Prepared, Task, check_iterations
from equitangents.solvers.system import System, are_solved, rounding_of
from equitangents.validation import check_whole

_LARGEST = 6  # Lanczos steps for λ_max, from the preconditioner's eigenvector
_PATIENCE = 300  # steps without a smaller residual, which rises and falls where the condition is bad
PRECONDITIONERS = ("rpcholesky", "none")


@dataclass(frozen=True)
class PCG(Method):
    """Preconditioned conjugate gradients, on all right-hand sides at once.

    preconditioner: "rpcholesky", randomly pivoted Cholesky, which reads `rank` columns; "none". rank: None, a tenth of
    N, from 50 to 1,000. tolerance: of the relative residual |Y − (Θ+δ)α|/|Y| of every right-hand side. max_iterations:
    products at most. seed: of pivots.
    """

    preconditioner: str = "rpcholesky"
    rank: int | None = None
    tolerance: float = TOLERANCE
    max_iterations: int = 2000
    seed: int = 0

    name: ClassVar[str] = "pcg"

    def __post_init__(self) -> None:
        check_iterations(self.tolerance, self.max_iterations)
        if self.preconditioner not in PRECONDITIONERS:
            raise InvalidArgumentError("preconditioner", self.preconditioner, list(PRECONDITIONERS))
        if self.rank is not None:
            check_whole("rank", self.rank, 1)
        check_whole("seed", self.seed, 0)

    def cost(self, task: Task) -> Cost:
        """The preconditioner, and vectors of every output."""
        n, rank = task.size, self.rank_of(task.size)
        memory = 8 * n * (2 * rank + 10 * task.outputs) + tile_bytes(task)
        return Cost(memory)

    def rank_of(self, size: int) -> int:
        """The preconditioner's rank for so many rows."""
        if self.preconditioner == "none":
            return 0
        return min(size, self.rank or min(1000, max(50, size // 10)))

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """The preconditioner is made when a time of inf is first asked for."""
        return _Conjugate(self, system, limit)


class _Conjugate(AtTheEnd):
    def __init__(self, method: PCG, system: System, limit: int) -> None:
        super().__init__(system, method.tolerance, limit, method.max_iterations)
        self._method = method

    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y by conjugate gradients."""
        m, system = self._method, self.system
        preconditioner, rank, largest = self._prepared
        found = conjugate_gradients(
            system.product,
            targets,
            preconditioner,
            tolerance=m.tolerance,
            steps=m.max_iterations,
            floor=rounding_of(largest),
            patience=_PATIENCE,
        )
        if not found.negative > 0:
            raise refused(system, found.negative)
        smallest = max(found.smallest, system.delta) if np.isfinite(found.smallest) else np.nan
        worst = float(np.max(found.residuals))
        if np.isfinite(smallest):
            check_positive(system, smallest, largest)
        if not are_solved(found.residuals, targets, found.solutions, m.tolerance, largest):
            raise_if_not_positive(system)
            raise InvalidArgumentError(
                f"conjugate gradients end at a relative residual of {worst:.1e} after {found.steps} steps, above the "
                f"tolerance {m.tolerance:g} (smallest eigenvalue about {system.divisor * smallest:.1e}, largest "
                f"{system.divisor * largest:.1e}); raise rank (now {rank}), ridge or tolerance, or take "
                "solver='cholesky' or 'out-of-core'"
            )
        return Answer(
            found.solutions,
            residual=worst,
            smallest=smallest,
            largest=largest,
            precision=f"float64 on {system.matrix.dtype.name} entries",
            iterations=found.steps,
            rank=rank or None,
            notes=(f"preconditioner {m.preconditioner}",),
        )

    @cached_property
    def _prepared(self) -> tuple[Preconditioner, int, float]:
        """The preconditioner, its rank, and λ_max of Θ + δ."""
        m, system = self._method, self.system
        rank = m.rank_of(system.size)
        if m.preconditioner == "none":
            return Unchanged(), 0, largest_eigenvalue(system)
        made = LowRank(_pivoted_factor(system.matrix, rank, m.seed), system.delta)
        return made, len(made.values), extremes(system, _LARGEST, made.vectors[:, -1:])[1]


def _pivoted_factor(matrix: SymmetricMatrix, rank: int, seed: int) -> np.ndarray:
    """A factor on pivots of all rows, or of the rows whose columns are cheap where others are not."""
    pivots = cheap_pivots(matrix, rank, seed=seed)
    return pivoted_cholesky(matrix, rank, seed=seed).factor if pivots is None else factor_on(matrix, pivots)
