"""Why a kernel matrix is not positive definite, and which ridge makes it so."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.spectrum import (
    NO_RIDGE,
    advice,
    cause,
    equal_rows,
    hides,
    is_positive,
    is_semidefinite,
    longest_time,
)
from equitangents.solvers.lanczos import extremes
from equitangents.solvers.method import System

_STEPS = 100  # of Lanczos, for λ_min of a matrix that is refused


def check_positive(system: System, smallest: float, largest: float, factor: str = "float64") -> None:
    """Raise NotPositiveDefiniteError unless λ_min of Θ + δ lies above what rounding of the entries can move it by.

    factor: the precision of the factor for which the ridge that cures it is to be enough.
    """
    if is_positive(smallest, largest, blur(system, largest)):
        return
    raise not_positive(system, smallest, largest, factor)


def raise_if_not_positive(system: System) -> None:
    """Refuse a matrix whose extreme eigenvalues, found by Lanczos, say why a solver diverged."""
    check_positive(system, *extremes(system, _STEPS))


def check_known(
    system: System, smallest: float, largest: float, time: float, rounding: float, by_rows: Callable[[], bool]
) -> None:
    """Raise NotPositiveDefiniteError where training for this time moves along what rounding hides.

    rounding: of eigenvalues. by_rows: whether Θ + δ is positive definite once its rows and columns have one norm.
    """
    if math.isinf(time):
        check_positive(system, smallest, largest)
        return
    check_semidefinite(system, smallest, largest)
    rate = system.divisor * system.dynamics.rate
    if hides(rate, time, rounding) and not is_positive(smallest, largest, rounding) and not by_rows():
        raise not_positive(system, smallest, largest, longest=longest_time(rate, rounding))


def check_semidefinite(system: System, smallest: float, largest: float) -> None:
    """Raise NotPositiveDefiniteError if Θ + δ has eigenvalues too negative to be rounding."""
    if is_semidefinite(smallest, largest, blur(system, largest)):
        return
    raise not_positive(system, smallest, largest)


def refused(system: System, bound: float, factor: str = "float64") -> NotPositiveDefiniteError:
    """The error for a matrix that was met not to be positive; λ_min is `bound`, or what Lanczos finds below it."""
    smallest, largest = extremes(system, _STEPS)
    return not_positive(system, min(bound, smallest), largest, factor)


def blur(system: System, largest: float) -> float:
    """How far rounding of the entries may have moved eigenvalues."""
    return system.resolution * max(abs(largest), system.scale)


def not_positive(
    system: System, smallest: float, largest: float, factor: str = "float64", longest: str | None = None
) -> NotPositiveDefiniteError:
    """The error, with the smallest eigenvalue, its cause, and the ridge that cures it, or the `longest` finite time."""
    return NotPositiveDefiniteError(
        f"the kernel matrix of the {system.size} training inputs is not positive definite to working precision "
        f"({_ends(system, smallest, largest)}); cause: {_cause(system, smallest, largest)}; "
        f"{_remedy(system, smallest, largest, factor, longest)}"
    )


def lost_in_factor(system: System, precision: str, ended: str, smallest: float = math.inf) -> NotPositiveDefiniteError:
    """The error for a factor in `precision` that `ended` so, though its matrix may be positive definite in float64.

    λ_min is `smallest`, or what Lanczos finds below it.
    """
    found, largest = extremes(system, _STEPS)
    smallest = min(smallest, found)
    if not (system.unit > 0 and smallest > blur(system, largest)) or _equal_rows(system) is not None:
        return not_positive(system, smallest, largest, precision)
    other = ", or precision='float64'" if precision == "float32" else ""
    return NotPositiveDefiniteError(
        f"the kernel matrix of the {system.size} training inputs is not positive definite to the accuracy of a factor "
        f"in {precision}, which {ended} ({_ends(system, smallest, largest)}); cause: rounding "
        f"in {precision} moves the eigenvalues of a factor by about "
        f"{system.divisor * _factor_blur(system, largest, precision):.1e}; "
        f"{_ridge(system, smallest, largest, precision)} or more{other}"
    )


def _ends(system: System, smallest: float, largest: float) -> str:
    """The extreme eigenvalues in words, those of the undivided matrix."""
    return f"smallest eigenvalue {system.divisor * smallest:.2e}, largest {system.divisor * largest:.2e}"


def _factor_blur(system: System, largest: float, precision: str) -> float:
    """How far rounding in a factor moves its eigenvalues, about: eps · max(λ_max, √N · mean diagonal)."""
    rounding = float(np.finfo(precision).eps) * max(abs(largest), system.scale, math.sqrt(system.size) * system.unit)
    return max(rounding, blur(system, largest))


def _cause(system: System, smallest: float, largest: float) -> str:
    return cause(
        smallest=system.divisor * smallest,
        blur=system.divisor * blur(system, largest),
        ridge=system.ridge,
        single=system.matrix.dtype == np.float32,
        equal=lambda: _equal_rows(system),
    )


def _equal_rows(system: System) -> tuple[int, int] | None:
    matrix = system.matrix

    def distance(i: int, j: int) -> tuple[float, float]:
        one, two = slice(i, i + 1), slice(j, j + 1)
        a, b, c = (float(matrix.block(*at)[0, 0]) for at in ((one, one), (two, two), (one, two)))
        return a + b - 2 * c, a + b

    return equal_rows(system.size, float(np.finfo(matrix.dtype).eps), matrix.product, distance)


def _remedy(system: System, smallest: float, largest: float, factor: str, longest: str | None = None) -> str:
    """The ridge that cures it, or that none does."""
    if not system.unit > 0:
        return NO_RIDGE
    time = "a finite time" if longest is None else f"a time of at most {longest}"
    return f"{_ridge(system, smallest, largest, factor)} or more, or take {time}"


def _ridge(system: System, smallest: float, largest: float, factor: str) -> str:
    """A ridge ten times above the threshold, taken for the matrix with that ridge, rounded up to one digit."""
    grown = 10 * max(system.resolution, float(np.finfo(factor).eps))
    missing = 10 * _factor_blur(system, largest, factor) - min(smallest, 0.0)
    wanted = (system.delta + missing / (1 - grown)) / system.unit
    return advice(wanted)
