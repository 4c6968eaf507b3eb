"""Lanczos as a method, and how every other exact method answers at finite times."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.solvers.definiteness import check_known
from equitangents.solvers.lanczos import basis_bytes, evolve
from equitangents.solvers.method import (
    TOLERANCE,
    Answer,
    Cost,
    Method,
    Prepared,
    System,
    Task,
    are_solved,
    check_iterations,
)

_EXPECTED = 60  # steps that forecasts assume


def respond_in_time(
    system: System, targets: np.ndarray, time: float, *, tolerance: float, steps: int, limit: int
) -> Answer:
    """α at any time by Lanczos, as many columns at once as their vectors fit into `limit` bytes."""
    n, k = targets.shape
    steps = min(steps, n)
    limit = max(0, limit - entries_bytes(n, system.matrix.in_memory, system.matrix.tile))
    together = min(k, max(1, limit // basis_bytes(n, 1, steps)))
    if basis_bytes(n, together, min(steps, _EXPECTED)) > limit:
        raise MemoryLimitError(
            "Lanczos vectors",
            basis_bytes(n, 1, steps),
            limit,
            "take solver='pcg' and time=inf, or raise memory_limit (bytes)",
            verb="need",
        )
    parts = [
        evolve(system, targets[:, start : start + together], time, tolerance, steps) for start in range(0, k, together)
    ]
    smallest, largest = min(part.smallest for part in parts), max(part.largest for part in parts)
    # It reads no rows, and knows what its own arithmetic hides, in float64, whatever entries are.
    check_known(system, smallest, largest, time, n * float(np.finfo(float).eps) * largest, lambda: False)
    system.check(largest, time)
    alpha = np.concatenate([part.coefficients for part in parts], axis=1)
    residual = float(np.max([part.error for part in parts]))
    if math.isinf(time):  # the bound knows nothing of rounding
        left = system.left(targets, alpha)
        if not are_solved(left, targets, alpha, tolerance, largest):
            raise InvalidArgumentError(
                "tolerance",
                tolerance,
                f"at least {np.max(left):.1e}, the residual at which Lanczos ends",
                "take solver='cholesky' or 'eigh', or a larger ridge",
            )
        residual = float(np.maximum(residual, float(np.max(left))))
    return Answer(
        alpha,
        residual=residual,
        smallest=max(smallest, system.delta) if smallest > 0 else smallest,
        largest=largest,
        precision="float64",
        iterations=max(part.steps for part in parts),
    )


class AtTheEnd(Prepared):
    """A method of time inf, in whose place Lanczos answers at finite ones, by at most `steps` vectors.

    tolerance: of the relative residual. limit: bytes. What is solved is the system of moderate numbers.
    """

    def __init__(self, system: System, tolerance: float, limit: int, steps: int = 1000) -> None:
        self.system, self.tolerance, self.limit, self.steps = system.moderate(), tolerance, limit, steps

    def respond(self, targets: np.ndarray, time: float) -> Answer:
        """α at one time: by the method at inf, else by Lanczos."""
        answer = self.solved(targets) if math.isinf(time) else self.in_time(targets, time)
        divisor = self.system.divisor
        return replace(
            answer,
            coefficients=answer.coefficients / divisor,
            smallest=answer.smallest * divisor,
            largest=answer.largest * divisor,
        )

    def in_time(self, targets: np.ndarray, time: float) -> Answer:
        """α at any time by Lanczos."""
        return respond_in_time(self.system, targets, time, tolerance=self.tolerance, steps=self.steps, limit=self.limit)

    @abc.abstractmethod
    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y."""


@dataclass(frozen=True)
class Lanczos(Method):
    """Krylov spaces of the targets: any training time, at the price of `iterations` products with Θ.

    tolerance: bound on |error of Y − Θα| over |Y|. max_iterations: Lanczos vectors that are kept, at most.
    """

    tolerance: float = TOLERANCE
    max_iterations: int = 1000

    name: ClassVar[str] = "lanczos"
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_iterations(self.tolerance, self.max_iterations)

    def cost(self, task: Task) -> Cost:
        """The vectors of as many columns as fit at once."""
        steps = min(self.max_iterations, task.size)
        one = basis_bytes(task.size, 1, steps)
        together = min(task.outputs, max(1, (task.limit - tile_bytes(task)) // one))
        return Cost(basis_bytes(task.size, together, min(steps, 3 * _EXPECTED)) + tile_bytes(task))

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """Nothing is computed before the targets are known."""
        return _Lanczos(system, self.tolerance, limit, self.max_iterations)


class _Lanczos(AtTheEnd):
    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y by Lanczos as well."""
        return self.in_time(targets, math.inf)


def tile_bytes(task: Task) -> int:
    """Bytes of the entries that a product has in memory at once, beside a matrix that is there."""
    return entries_bytes(task.size, task.in_memory, task.tile)


def entries_bytes(size: int, in_memory: bool, tile: int) -> int:
    """Bytes of the entries that a product with `size` rows has in memory at once, beside a matrix that is there."""
    return 3 * 8 * (min(256, size) * size if in_memory else min(tile, size) ** 2)
