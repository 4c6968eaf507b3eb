"""The learning curve that a kernel's spectrum predicts: the omniscient risk estimate, for a finite pool.

Of P inputs with kernel matrix K = Σ_i Λ_i u_i u_iᵀ and targets y, n = pP are drawn without replacement and trained on
with ridge δ. Treating all single inputs alike (the cavity argument), the mean prediction is K (K + κ)⁻¹ y with
    κ = (δ + s)/p − s,    1/(κ + s) = (1/P) Σ_i 1/(Λ_i + κ),
s the mean variance left at an input that was not drawn, and the mean squared error on the inputs not drawn is
    R = (κ + s)² (1/P) Σ_i (u_iᵀ y)²/(Λ_i + κ)²  /  (1 − ((1 − p)/p) (1/P) Σ_i ((Λ_i − s)/(Λ_i + κ))²).
For n ≪ P this is the estimate of Bordelon et al. 2020, Canatar et al. 2021 and Simon et al. 2023, n = Σ λ/(λ + κ′) +
δ/κ′ with λ = Λ/P; at n = P it is generalised cross-validation, which Wei et al. 2022 find to hold beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import Numbers, check_array, check_same_length
from equitangents.inference import decompose
from equitangents_studies.systems.predictions_checked import warn_where_missed


@dataclass(frozen=True, eq=False)
class PoolSpectrum:
    """Eigenvalues Λ of a pool's kernel matrix (P,), ascending, and the targets' power along each, Σ_outputs (u_iᵀ y)².

    Made by `pool_spectrum`.
    """

    eigenvalues: Float[np.ndarray, " pool"]
    power: Float[np.ndarray, " pool"]

    @property
    def size(self) -> int:
        """P, the number of inputs in the pool."""
        return len(self.eigenvalues)

    def effective_ridge(self, size: float, ridge: float = 0.0) -> tuple[float, float]:
        """(κ, s) for n = `size` inputs drawn from the pool and the ridge δ, in the units of the kernel."""
        n, P, values = self._check(size, ridge), self.size, self.eigenvalues
        p = n / P
        if not values.any():  # inputs tell nothing of one another, nor of themselves
            return ridge / p, 0.0
        if n == P:
            return ridge, 1 / float(np.mean(1 / (values + ridge))) - ridge
        degrees = lambda kappa: float(np.sum(values / (values + kappa)))
        kappa = lambda s: ridge / p + s * (1 - p) / p
        excess = lambda log_s: n * math.exp(log_s) / (ridge + math.exp(log_s)) - degrees(kappa(math.exp(log_s)))
        top = math.log(max(float(values.mean()), 1e-300)) + 40
        low = top - 40
        while excess(low) > 0 and low > top - 400:
            low -= 20
        s = math.exp(scipy.optimize.brentq(excess, low, top, xtol=1e-12, rtol=1e-14))
        return kappa(s), s

    def risk(self, size: float, ridge: float = 0.0) -> float:
        """R, the mean squared error, summed over outputs, on inputs of the pool that were not drawn."""
        kappa, s = self.effective_ridge(size, ridge)
        p = size / self.size
        bias = (kappa + s) ** 2 * float(np.mean(self.power / (self.eigenvalues + kappa) ** 2))
        spread = float(np.mean(((self.eigenvalues - s) / (self.eigenvalues + kappa)) ** 2))
        return bias / (1 - (1 - p) / p * spread)

    def risks(self, sizes: Numbers, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
        """`risk` at many sizes."""
        return np.array([self.risk(float(n), ridge) for n in np.asarray(sizes, np.float64)])

    def _check(self, size: float, ridge: float) -> float:
        if not (0 < size <= self.size):
            raise InvalidArgumentError(f"size is {size!r}; the pool of {self.size} inputs tells of sizes up to its own")
        if not (ridge >= 0 and math.isfinite(ridge)):
            raise InvalidArgumentError(f"ridge is {ridge!r}; expected a finite number ≥ 0")
        positive = int((self.eigenvalues > 0).sum())
        if ridge == 0 and size >= positive:
            raise InvalidArgumentError(
                f"size is {size!r} and the kernel matrix has rank {positive}; without ridge the estimate is known for "
                "smaller sizes only"
            )
        return float(size)


def pool_spectrum(K: Numbers, y: Numbers) -> PoolSpectrum:
    """Eigenvalues of the pool's kernel matrix K (P, P) and the power of its targets y, (P,) or (P, outputs).

    Eigenvalues up to P·ε·Λ_max, which rounding makes of 0, count as 0; ε is that of K's own precision, if it is larger.

    >>> spectrum = pool_spectrum(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]))
    >>> spectrum.risk(2)  # nothing can be learnt of other inputs
    1.0
    """
    given = check_array("K", K, rank=2)
    K = np.asarray(given, np.float64)
    y = np.asarray(check_array("y", y, rank=(1, 2)), np.float64)
    if K.shape[0] != K.shape[1]:
        raise ShapeError(f"K has shape {K.shape}; expected a square matrix")
    check_same_length("K", K, "y", y)
    precision = given.dtype if np.issubdtype(given.dtype, np.floating) else np.float64
    spectrum = decompose(K, precision=precision)
    values, power = spectrum.eigenvalues, ((spectrum.vectors.T @ y.reshape(len(y), -1)) ** 2).sum(axis=1)
    return PoolSpectrum(np.where(values > spectrum.blur, values, 0.0), power)


def omniscient_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
    """The squared error that the spectrum predicts of kernel regression on n of the pool's inputs, for every size.

    K: kernel matrix (P, P) of the pool; y: its targets, (P,) or (P, outputs); ridge: added to the diagonal, as it is,
    not relative to it. The error is the mean over inputs that are not trained on, summed over outputs.

    A few random training sets of the largest size are trained on, too: where they show another error, as they do where
    inputs nearly repeat each other, a warning is logged.

    Sources: Bordelon, Canatar & Pehlevan 2020 (arXiv 2002.02561); Simon et al. 2023 (arXiv 2110.03922); Wei, Hu &
    Steinhardt 2022 (arXiv 2203.06176). The correction for a finite pool is ours; the module has the formula.

    >>> x = np.linspace(0, 1, 40)
    >>> K = np.exp(-np.abs(x[:, None] - x))
    >>> omniscient_risk(K, np.sin(3 * x), [5, 10, 20]).round(4).tolist()
    [0.0224, 0.0035, 0.0005]
    """
    risks = unchecked_risk(K, y, sizes, ridge=ridge)
    warn_where_missed("omniscient_risk", K, y, sizes, risks, ridge)
    return risks


def unchecked_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float) -> Float[np.ndarray, " sizes"]:
    """As `omniscient_risk`, without training sets beside it."""
    return pool_spectrum(K, y).risks(check_array("sizes", sizes, rank=1), ridge)
