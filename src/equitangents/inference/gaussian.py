"""The Gaussian process that infinitely wide networks are after training: GP(μ_t, Σ_t ⊗ 1), one copy an output.

With A = Θ(x,X) φ(Θ), φ the response of `dynamics`, and prior covariance K (all without argument: on the data X):
    μ_t(x)     = A Y
    Σ_t(x, x′) = K(x, x′) + A K A′ᵀ − A K(X, x′) − K(x, X) A′ᵀ
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.spectrum import Spectrum
from equitangents.validation import check_array


class TrainedProcess:
    """Training on N samples at infinite width, ready to be asked at any time.

    spectrum: of the kernel that trains, Θ (or K for the Bayesian posterior), ridge included; real, or complex as the
              blocks of some irreps are, and everything else with it
    targets:  (N, outputs)
    dynamics: of the explicit problem, whose number of samples may exceed N when samples were merged
    prior:    K on the data, (N, N), for an ensemble of networks of which all layers are trained; None for the
              posterior, where the kernel that trains is K itself and the ridge is the variance of noise on the targets
    scale:    (N,) square roots of how many equal samples each row stands for; every matrix here, spectrum and prior
              included, is that of the rows times `scale`, and the kernels given to `project` are scaled here
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
        """Raise if this training cannot be evaluated at `time`: long on a singular kernel, steps that diverge."""
        self.dynamics.check(self.spectrum.largest, time)
        self.spectrum.check_known(self.dynamics.rate, time)

    @property
    def samples(self) -> int:
        """How many samples the loss is a mean over, merged ones and augmented copies one by one."""
        return self.dynamics.samples

    def retuned(self, ridge: float, dynamics: Dynamics) -> TrainedProcess:
        """This process with another ridge or learning rate, from the decomposition that is there."""
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

    def project(self, cross: np.ndarray, prior_cross: np.ndarray | None = None) -> Projection:
        """Ask at M inputs: Θ(x, X) of shape (M, N), and K(x, X) if variances are wanted."""
        cross = self._scaled("cross", cross) @ self.spectrum.vectors
        if prior_cross is None:
            return Projection(self, cross)
        prior_cross = self._scaled("prior_cross", prior_cross)
        return Projection(self, cross, prior_cross if self.prior is not None else prior_cross @ self.spectrum.vectors)

    def _scaled(self, name: str, cross: np.ndarray) -> np.ndarray:
        cross = _matrix(name, cross, len(self.spectrum.vectors))
        return cross if self.scale is None else cross * self.scale


@dataclass(frozen=True)
class Projection:
    """The trained process at M inputs; each method takes the time, in units of the process's dynamics."""

    process: TrainedProcess
    cross: np.ndarray  # Θ(x, X) U
    prior_cross: np.ndarray | None = None  # K(x, X), of the posterior K(x, X) U

    def mean(self, time: float) -> np.ndarray:
        """The mean μ_t at the queries after training for this time, (M, outputs)."""
        return self.cross @ (self.response(time)[:, None] * self.process.targets)

    def covariance(self, prior: np.ndarray, time: float) -> np.ndarray:
        """Σ_t of one output, (M, M), symmetric, for `prior` K(x, x); for its diagonal (M,) that of Σ_t, clipped at 0.

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


Weighted = Sequence[tuple[float, Projection]]
"""Blocks that a process falls apart into, each with its weight: rows (M·d, N) of M inputs."""


def covariance(blocks: Weighted, prior: np.ndarray, time: float) -> np.ndarray:
    """Σ_t of one output, (M, M) or its diagonal (M,), clipped at 0: the prior's, and what each block changes of it."""
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
