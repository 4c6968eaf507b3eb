"""Time: how far gradient descent has come along each eigenvector of the kernel.

Loss L = (1/2N) Σ_i |f(x_i) − y_i|², learning rate η. Along an eigenvector of Θ with eigenvalue λ the residual f − y
has shrunk by   flow at time t:  e^{−ηλt/N}      descent after k steps:  (1 − ηλ/N)^k
and the function has moved by the response φ(λ) = (1 − decay)/λ times the data's pull (λ → 0: φ = ηt/N or ηk/N).
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import numpy as np

from equitangents._types import Times
from equitangents.errors import InvalidArgumentError, InvalidTypeError

_ROUNDING = 1e-12  # a learning rate taken from `max_learning_rate` itself must not fail by its last digits


@dataclass(frozen=True)
class Dynamics(abc.ABC):
    """How residuals decay under training with learning rate η on N samples.

    The learning rate is not divided by the number of outputs. A library whose loss is the mean over samples *and*
    outputs reaches at time t what is reached here at time t / (number of outputs).

    Source: Lee et al. 2019, arXiv 1902.06720, section 2.2.
    """

    learning_rate: float
    samples: int

    def __post_init__(self) -> None:
        if not (isinstance(self.learning_rate, int | float | np.number) and 0 < self.learning_rate < math.inf):
            raise InvalidArgumentError("learning_rate", self.learning_rate, remedy="it must be positive and finite")
        if self.samples < 1:
            raise InvalidArgumentError("samples", self.samples, remedy="it must be at least 1")

    @property
    def rate(self) -> float:
        """η/N: what a unit of time (or one step) multiplies the kernel by. The convention lives here alone."""
        return float(self.learning_rate) / self.samples

    @abc.abstractmethod
    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What is left of the residual along each eigenvector; eigenvalues ≥ 0, and > 0 where time is infinite."""

    @abc.abstractmethod
    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """φ(λ) = (1 − decay)/λ, to rounding for any λ ≥ 0; λ > 0 where time is infinite."""

    @abc.abstractmethod
    def check(self, largest_eigenvalue: float, time: float) -> None:
        """Raise InvalidArgumentError if `time` cannot be reached with this learning rate."""

    def max_learning_rate(self, largest_eigenvalue: float) -> float:
        """2N/λ_max: above it, descent in steps diverges (flow never does)."""
        return 2 * self.samples / largest_eigenvalue if largest_eigenvalue > 0 else math.inf


class Flow(Dynamics):
    """Gradient flow: time t ≥ 0, decay e^{−ηλt/N}.

    >>> import numpy as np
    >>> Flow(learning_rate=1.0, samples=2).decay(np.array([0.0, 2.0]), time=1.0).round(4).tolist()
    [1.0, 0.3679]
    """

    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What gradient flow has left of each mode's error, e^{−ηλt/N}."""
        s = self.rate * time
        return np.zeros_like(eigenvalues) if math.isinf(s) else np.exp(-s * eigenvalues)

    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What gradient flow makes of each mode's targets, (1 − e^{−ηλt/N})/λ."""
        s = self.rate * time
        if math.isinf(s):
            return 1 / eigenvalues
        return np.where(s * eigenvalues > 0, -np.expm1(-s * eigenvalues) / _nonzero(eigenvalues), s)

    def check(self, largest_eigenvalue: float, time: float) -> None:
        """Flow reaches every time with every learning rate."""


class Descent(Dynamics):
    """Full-batch gradient descent in steps: time k = 0, 1, 2, …, decay (1 − ηλ/N)^k.

    >>> import numpy as np
    >>> Descent(learning_rate=1.0, samples=2).decay(np.array([0.0, 1.0]), time=3).tolist()
    [1.0, 0.125]
    """

    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """What k steps of gradient descent have left of each mode's error, (1 − ηλ/N)^k."""
        if math.isinf(time):
            return np.zeros_like(eigenvalues)
        return (1 - self.rate * eigenvalues) ** time

    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """(1 − (1 − ηλ/N)^k)/λ."""
        if math.isinf(time):
            return 1 / eigenvalues
        if time == 0:
            return np.zeros_like(eigenvalues)
        a = self.rate * eigenvalues
        with np.errstate(divide="ignore"):  # a = 1: everything is learnt in one step, log 0 = −∞
            log_decay = time * np.where(a < 1, np.log1p(-np.minimum(a, 1)), np.log1p(np.maximum(a, 1) - 2))
        overshoot = (a > 1) & (time % 2 == 1)
        moved = np.where(overshoot, 1 + np.exp(log_decay), -np.expm1(log_decay))
        return np.where(a > 0, moved / _nonzero(eigenvalues), self.rate * time)

    def check(self, largest_eigenvalue: float, time: float) -> None:
        """Steps must be whole, and above the largest stable learning rate they diverge."""
        if not math.isinf(time) and time != math.floor(time):
            raise InvalidArgumentError("time", time, "0, 1, 2, … or inf, since dynamics='discrete' counts steps")
        largest = self.max_learning_rate(largest_eigenvalue)
        if time > 0 and self.learning_rate > largest * (1 + _ROUNDING):
            raise InvalidArgumentError(
                "learning_rate",
                self.learning_rate,
                f"at most {largest:.6g}, above which gradient descent on these data diverges",
                "take a smaller one, or dynamics='flow'",
            )
        if math.isinf(time) and self.learning_rate >= largest * (1 - _ROUNDING):
            raise InvalidArgumentError(
                "learning_rate",
                self.learning_rate,
                f"below {largest:.6g} at time inf, where gradient descent oscillates for ever",
            )


DYNAMICS: dict[str, type[Dynamics]] = {"flow": Flow, "discrete": Descent}


def as_times(time: Times) -> tuple[np.ndarray, bool]:
    """`time` as a 1-d float64 array, and whether it was a single number. Times are ≥ 0; inf is a time.

    >>> as_times(0.5)
    (array([0.5]), True)
    """
    try:
        times = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError("time", time, "a number or a 1-d array of numbers") from None
    if times.ndim > 1 or times.size == 0:
        raise InvalidArgumentError("time", times.shape, "a number or a non-empty 1-d array", verb="has shape")
    if np.isnan(times).any() or (times < 0).any():
        raise InvalidArgumentError("time", time, remedy="times are ≥ 0 (inf is allowed)")
    return np.atleast_1d(times), times.ndim == 0


def one_time(time: Times, reason: str = "it has to be one number") -> float:
    """A single training time; InvalidArgumentError, which ends with the reason, for an array of them."""
    times, single = as_times(time)
    if not single:
        raise InvalidArgumentError("time", times.shape, "one number", reason, verb="has shape")
    return float(times[0])


def _nonzero(eigenvalues: np.ndarray) -> np.ndarray:
    return np.where(eigenvalues > 0, eigenvalues, 1.0)
