"""What a method of solving declares: what it will take, and how it is prepared for one matrix."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.solvers.system import System
from equitangents.validation import check_whole

TOLERANCE = 1e-10


@dataclass(frozen=True)
class Task:
    """What is to be solved, as far as costs depend on it: N rows, k right-hand sides, the time, how Θ is had.

    itemsize: bytes of an entry. in_memory: whether Θ is an array already. consumed: whether that may be overwritten.
    """

    size: int
    outputs: int
    itemsize: int
    in_memory: bool
    consumed: bool
    tile: int
    limit: int


@dataclass(frozen=True)
class Cost:
    """Bytes of memory at the peak and of disk, and the precision of what is computed."""

    memory: int
    disk: int = 0
    precision: str = "float64"


@dataclass(frozen=True)
class Answer:
    """α for one time, and what is known of it; the fields are those of `Report` and `Solution`."""

    coefficients: np.ndarray
    residual: float
    smallest: float
    largest: float
    precision: str
    iterations: int = 0
    support: np.ndarray | None = None
    rank: int | None = None
    error: float = 0.0
    notes: tuple[str, ...] = ()


class Prepared(abc.ABC):
    """A method at work on one system; what it computes once (a factor, a preconditioner) it keeps."""

    @abc.abstractmethod
    def respond(self, targets: np.ndarray, time: float) -> Answer:
        """α = φ_t(Θ + δ) Y for Y (N, k) at one time."""


class Method(abc.ABC):
    """A way of solving, with its settings."""

    name: ClassVar[str]
    exact: ClassVar[bool] = True  # up to the residual that it reports
    any_time: ClassVar[bool] = False  # whether it answers at finite times itself, so that Lanczos need not

    @abc.abstractmethod
    def cost(self, task: Task) -> Cost:
        """What it will take."""

    @abc.abstractmethod
    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """Get ready; `limit` bytes may be used, and the matrix's array may be overwritten if `consumed`."""


def check_iterations(tolerance: float, iterations: int, name: str = "max_iterations") -> None:
    """Raise unless these are a tolerance and a number of iterations, which errors call `name`."""
    if not isinstance(tolerance, int | float | np.number) or not 0 < tolerance < 1:
        raise InvalidArgumentError("tolerance", tolerance, "a number between 0 and 1, such as 1e-10")
    check_whole(name, iterations, 1)


def check_precision(precision: str | None) -> None:
    """Raise unless this is the precision of a factor, or None."""
    if precision not in (None, "float32", "float64"):
        raise InvalidArgumentError("precision", precision, "'float32', 'float64' or None")
