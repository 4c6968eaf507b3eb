"""Why a kernel matrix is not positive definite, and which ridge makes it so."""

from __future__ import annotations

import math

import numpy as np

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.definiteness import cause, equal_rows
from equitangents.solvers.lanczos import extremes
from equitangents.solvers.system import System

_STEPS = 100  # of Lanczos, for λ_min of a matrix that is refused
_INDEFINITE = 100.0  # times the rounding of the entries: a negative eigenvalue beyond it has another reason


def check_positive(system: System, smallest: float, largest: float) -> None:
    """Raise NotPositiveDefiniteError unless λ_min of Θ + δ lies above what rounding of the entries can move it by."""
    if largest > 0 and smallest > blur(system, largest):
        return
    raise not_positive(system, smallest, largest)


def check_semidefinite(system: System, smallest: float, largest: float) -> None:
    """Raise NotPositiveDefiniteError if Θ + δ has eigenvalues too negative to be rounding."""
    if smallest >= -_INDEFINITE * blur(system, largest) and largest >= 0:
        return
    raise not_positive(system, smallest, largest)


def refused(system: System, bound: float) -> NotPositiveDefiniteError:
    """The error for a matrix that was met not to be positive; λ_min is `bound`, or what Lanczos finds below it."""
    smallest, largest = extremes(system, _STEPS)
    return not_positive(system, min(bound, smallest), largest)


def blur(system: System, largest: float) -> float:
    """How far rounding of the entries may have moved eigenvalues."""
    return system.resolution * max(abs(largest), system.scale)


def not_positive(system: System, smallest: float, largest: float) -> NotPositiveDefiniteError:
    """The error, with the smallest eigenvalue, its cause, and the ridge that cures it."""
    return NotPositiveDefiniteError(
        f"the kernel matrix of the {system.size} training inputs is not positive definite to working precision "
        f"(smallest eigenvalue {smallest:.2e}, largest {largest:.2e}); cause: {_cause(system, smallest, largest)}; "
        f"{_remedy(system, smallest, largest)}"
    )


def _cause(system: System, smallest: float, largest: float) -> str:
    return cause(
        smallest=smallest,
        blur=blur(system, largest),
        ridge=system.ridge,
        single=system.matrix.dtype == np.float32,
        equal=lambda: _equal_rows(system),
    )


def _equal_rows(system: System) -> tuple[int, int] | None:
    matrix = system.matrix
    if not matrix.has_blocks:
        return None

    def distance(i: int, j: int) -> tuple[float, float]:
        one, two = slice(i, i + 1), slice(j, j + 1)
        a, b, c = (float(matrix.block(*at)[0, 0]) for at in ((one, one), (two, two), (one, two)))
        return a + b - 2 * c, a + b

    return equal_rows(system.size, float(np.finfo(matrix.dtype).eps), matrix.product, distance)


def _remedy(system: System, smallest: float, largest: float) -> str:
    """A ridge ten times above the threshold, taken for the matrix with that ridge, rounded up to one digit."""
    unit = system.unit
    if not unit > 0:
        return "its diagonal vanishes, so no ridge helps: check the inputs and the network"
    missing = 10 * blur(system, largest) - smallest
    wanted = (system.delta + missing / (1 - 10 * system.resolution)) / unit
    digit = 10.0 ** math.floor(math.log10(wanted))
    return f"set ridge={math.ceil(wanted / digit) * digit:.0e} or more, or take a finite time"
