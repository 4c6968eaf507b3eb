"""Training dynamics at infinite width: outputs are a Gaussian process GP(μ_t, Σ_t ⊗ 1), one copy per output.

Loss L = (1/2N) Σ_i |f(x_i) − y_i|², learning rate η. Along an eigenvector of Θ with eigenvalue λ the residual f − y
has decayed by   flow at time t:  e^{−ηλt/N}      descent after k steps:  (1 − ηλ/N)^k
and the function has moved by the response φ(λ) = (1 − decay)/λ times the data's pull (λ → 0: φ = ηt/N or ηk/N).
With A = Θ(x,X) φ(Θ), and prior covariance K (without arguments: on the data X):
    μ_t(x)     = A Y
    Σ_t(x, x′) = K(x, x′) + A K A′ᵀ − A K(X, x′) − K(x, X) A′ᵀ
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equitangents._types import Times
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.inference.spectrum import Spectrum
from equitangents.validation import check_array

_ROUNDING = 1e-12  # a learning rate taken from `max_learning_rate` itself must not fail by its last digits


@dataclass(frozen=True)
class Dynamics(abc.ABC):
    """Decay of residuals under training with learning rate η on N samples.

    The learning rate is not divided by the number of outputs. A library whose loss is the mean over samples *and*
    outputs reaches at time t the state of time t / (number of outputs) here.

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
        """η/N, the factor of the kernel per unit of time (or step). The convention is defined only here."""
        return float(self.learning_rate) / self.samples

    @abc.abstractmethod
    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """Remaining fraction of the residual along each eigenvector; eigenvalues ≥ 0, and > 0 for infinite time."""

    @abc.abstractmethod
    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """φ(λ) = (1 − decay)/λ, accurate to rounding for any λ ≥ 0; λ > 0 for infinite time."""

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
        """Remaining fraction of each mode's error, e^{−ηλt/N}."""
        s = self.rate * time
        return np.zeros_like(eigenvalues) if math.isinf(s) else np.exp(-s * eigenvalues)

    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """Response of each mode, (1 − e^{−ηλt/N})/λ."""
        s = self.rate * time
        if math.isinf(s):
            return 1 / eigenvalues
        return np.where(s * eigenvalues > 0, -np.expm1(-s * eigenvalues) / _nonzero(eigenvalues), s)

    def check(self, largest_eigenvalue: float, time: float) -> None:
        """Accept every time and learning rate."""


class Descent(Dynamics):
    """Full-batch gradient descent in steps: time k = 0, 1, 2, …, decay (1 − ηλ/N)^k.

    >>> import numpy as np
    >>> Descent(learning_rate=1.0, samples=2).decay(np.array([0.0, 1.0]), time=3).tolist()
    [1.0, 0.125]
    """

    def decay(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """Remaining fraction of each mode's error after k steps, (1 − ηλ/N)^k."""
        if math.isinf(time):
            return np.zeros_like(eigenvalues)
        return (1 - self.rate * eigenvalues) ** time

    def response(self, eigenvalues: np.ndarray, time: float) -> np.ndarray:
        """Response of each mode, (1 − (1 − ηλ/N)^k)/λ."""
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
        """Raise unless `time` is a whole number of steps, and the learning rate is at most the largest stable one."""
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
    """`time` as a 1-d float64 array, and whether it was a single number. Times are ≥ 0; inf is allowed.

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
    """A single training time; InvalidArgumentError, which ends with `reason`, for an array."""
    times, single = as_times(time)
    if not single:
        raise InvalidArgumentError("time", times.shape, "one number", reason, verb="has shape")
    return float(times[0])


def _nonzero(eigenvalues: np.ndarray) -> np.ndarray:
    return np.where(eigenvalues > 0, eigenvalues, 1.0)


class TrainedProcess:
    """Training on N samples at infinite width, to be evaluated at any time.

    spectrum: of the training kernel Θ (or K for the Bayesian posterior), including ridge; real, or complex for
              the blocks of some irreps, and then all other matrices are complex, too
    targets:  (N, outputs)
    dynamics: of the explicit problem, whose number of samples may exceed N when samples were merged
    prior:    K on the data, (N, N), for an ensemble of networks of which all layers are trained; None for the
              posterior, where the training kernel is K and the ridge is the variance of noise on the targets
    scale:    (N,) square roots of the number of equal samples that each row represents; all matrices, including
              spectrum and prior, are those of the rows times `scale`; `project` scales its kernels itself
    """

    def __init__(
        self,
        spectrum: Spectrum,
        targets: np.ndarray,
        dynamics: Dynamics,
        *,
        prior: np.ndarray | None = None,
        scale: np.ndarray | None = None,
    ) -> None:
        targets = _matrix("targets", targets)
        n = len(spectrum.eigenvalues)
        if len(targets) != n:
            raise ShapeError("targets", len(targets), n, "as many rows as the kernel matrix", verb="has rows,")
        if prior is not None and np.shape(prior) != (n, n):
            raise ShapeError("prior", np.shape(prior), (n, n))
        self.spectrum = spectrum
        self.dynamics = dynamics
        self.scale = scale
        self.targets = spectrum.vectors.conj().T @ (targets if scale is None else targets * scale[:, None])
        self.prior = prior

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max: the largest learning rate at which gradient descent in steps is stable."""
        return self.dynamics.max_learning_rate(self.spectrum.largest)

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`: long times on a singular kernel, diverging steps."""
        self.dynamics.check(self.spectrum.largest, time)
        self.spectrum.check_known(self.dynamics.rate, time)

    @property
    def samples(self) -> int:
        """Number of samples in the loss's mean, counting merged ones and augmented copies separately."""
        return self.dynamics.samples

    def retuned(self, ridge: float, dynamics: Dynamics) -> TrainedProcess:
        """This process with another ridge or learning rate, reusing the decomposition."""
        process = copy.copy(self)
        process.spectrum = self.spectrum.with_ridge(ridge)
        process.dynamics = dynamics
        return process

    def weights(self, time: float) -> np.ndarray:
        """α = φ_t(Θ) Y, (N, outputs), times `scale`: μ_t(x) = Θ(x, X) α."""
        self.check(time)
        response = self.dynamics.response(self.spectrum.eigenvalues, time)
        found = self.spectrum.vectors @ (response[:, None] * self.targets)
        return found if self.scale is None else found * self.scale[:, None]

    def project(self, cross: np.ndarray, prior_cross: np.ndarray | None = None) -> ProjectedProcess:
        """The process at M inputs, from Θ(x, X) of shape (M, N), and K(x, X) if variances are needed."""
        cross = self._scaled("cross", cross) @ self.spectrum.vectors
        if prior_cross is None:
            return ProjectedProcess(self, cross)
        prior_cross = self._scaled("prior_cross", prior_cross)
        prior_cross = prior_cross if self.prior is not None else prior_cross @ self.spectrum.vectors
        return ProjectedProcess(self, cross, prior_cross)

    def _scaled(self, name: str, cross: np.ndarray) -> np.ndarray:
        cross = _matrix(name, cross, len(self.spectrum.vectors))
        return cross if self.scale is None else cross * self.scale


@dataclass(frozen=True)
class ProjectedProcess:
    """The trained process at M inputs; each method takes a time, in units of the process's dynamics."""

    process: TrainedProcess
    cross: np.ndarray  # Θ(x, X) U
    prior_cross: np.ndarray | None = None  # K(x, X), of the posterior K(x, X) U

    def mean(self, time: float) -> np.ndarray:
        """The mean μ_t at the M inputs, (M, outputs)."""
        return self.cross @ self.pull(time)

    def pull(self, time: float) -> np.ndarray:
        """φ_t(Λ) UᵀY, (N, outputs): the targets' factor of the mean, in the eigenbasis."""
        return self.response(time)[:, None] * self.process.targets

    def covariance(self, prior: np.ndarray, time: float) -> np.ndarray:
        """Σ_t of one output, (M, M), for `prior` K(x, x); or its diagonal (M,), clipped at 0, for `prior` diag K(x, x).

        Positive semidefinite up to rounding.
        """
        return covariance([(1.0, self)], prior, time)

    def response(self, time: float) -> np.ndarray:
        """φ of every eigenvalue; raises if the process cannot be evaluated at `time`."""
        self.process.check(time)
        return self.process.dynamics.response(self.process.spectrum.eigenvalues, time)

    def covariance_factors(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """A and B, (M, N), with Σ_t = K(x, x′) + (A B* + B A*)/2, in the basis of the data or in its eigenbasis."""
        if self.prior_cross is None:
            raise InvalidArgumentError("prior_cross", None, remedy="covariances need the prior kernel K(x, X)")
        process, response = self.process, self.response(time)
        if process.prior is None:
            # A (Λ+δ) Aᵀ − 2 A K = −K(x,X) φ(1 + decay) K(X,x): noise of variance δ on the targets included.
            decay = process.dynamics.decay(process.spectrum.eigenvalues, time)
            return self.prior_cross * response * (1 + decay), -self.prior_cross
        A = (self.cross * response) @ process.spectrum.vectors.conj().T
        return A, A @ process.prior - 2 * self.prior_cross


Weighted = Sequence[tuple[float, ProjectedProcess]]
"""Blocks of a process, each with its weight: rows (M·d, N) of M inputs."""


def covariance(blocks: Weighted, prior: np.ndarray, time: float) -> np.ndarray:
    """Σ_t of one output, (M, M), or its diagonal (M,) clipped at 0: the prior plus each block's change."""
    total = np.array(prior, np.float64)
    for weight, at in blocks:
        A, B = (a.reshape(len(total), -1) for a in at.covariance_factors(time))
        if total.ndim == 1:
            total += weight * np.einsum("mn,mn->m", A, B.conj()).real
        else:
            change = (A @ B.conj().T).real
            total += weight / 2 * (change + change.T)
    return np.maximum(total, 0.0) if total.ndim == 1 else total


def _matrix(name: str, a: np.ndarray, columns: int | None = None) -> np.ndarray:
    if np.iscomplexobj(a):
        return a
    return np.asarray(check_array(name, a, rank=2, shape=None if columns is None else (None, columns)), np.float64)
