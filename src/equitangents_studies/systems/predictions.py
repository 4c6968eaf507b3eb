"""The learning curve that a kernel predicts for a finite pool, compared with measured errors.

Of P inputs with kernel matrix K = Σ_i Λ_i u_i u_iᵀ and targets y, n = pP are drawn without replacement and trained on
with ridge δ. If all inputs are treated alike (the cavity argument), the mean prediction is K (K + κ)⁻¹ y with
    κ = (δ + s)/p − s,    1/(κ + s) = (1/P) Σ_i 1/(Λ_i + κ),
s the mean variance left at an input that was not drawn, and the mean squared error on the inputs not drawn is
    R = (κ + s)² (1/P) Σ_i (u_iᵀ y)²/(Λ_i + κ)²  /  (1 − ((1 − p)/p) (1/P) Σ_i ((Λ_i − s)/(Λ_i + κ))²).
For n ≪ P this omniscient estimate is that of Bordelon et al. 2020, Canatar et al. 2021 and Simon et al. 2023, n = Σ
λ/(λ + κ′) + δ/κ′ with λ = Λ/P; at n = P it is generalised cross-validation, which Wei et al. 2022 find to hold beyond
it.

With one variance per input, s_i is the remaining variance of input i, 1/A_ii = (δ + s_i)/p with
A = (K + diag κ)⁻¹, κ_i = (δ + s_i)/p − s_i, found by Anderson's iteration on log s. With c_i = κ_i + s_i the residuals
of inputs that were not drawn have the mean c_i (A y)_i and the mean square r_i,
    r_i = c_i² [ (A y)_i² + ((1 − p)/p) Σ_{j≠i} A_ij² r_j ].
At n = P, c_i (A y)_i is the residual of leaving i out, exactly. Data with inputs that are far easier than others (all
ones of MNIST look alike) need this; the spectrum does not show which inputs are easy.

Both assume many inputs, none of which dominates. If inputs nearly repeat each other they can be hundreds of times too
low, which the spectrum does not show: compare them with measured errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError, ShapeError
from equitangents.extending import Numbers, check_array, check_number, check_same_length
from equitangents.inference import decompose

_TOLERANCE = 1e-4  # of log s, largest change
_DEPTH = 4  # steps that Anderson's iteration remembers
_MOST = 100


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
        if not values.any():  # a zero kernel carries no information
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
        reduction = float(np.mean(((self.eigenvalues - s) / (self.eigenvalues + kappa)) ** 2))
        return bias / (1 - (1 - p) / p * reduction)

    def risks(self, sizes: Numbers, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
        """`risk` at many sizes."""
        return np.array([self.risk(float(n), ridge) for n in np.asarray(sizes, np.float64)])

    def _check(self, size: float, ridge: float) -> float:
        if not (0 < size <= self.size):
            raise InvalidArgumentError(
                "size", size, range(1, self.size + 1), "predictions reach up to the size of the pool"
            )
        check_number("ridge", ridge, "a finite number ≥ 0", lambda r: r >= 0)
        positive = int((self.eigenvalues > 0).sum())
        if ridge == 0 and size >= positive:
            raise InvalidArgumentError(
                "size", size, f"less than {positive}, the rank of K, without a ridge", "give a ridge"
            )
        return float(size)


def pool_spectrum(K: Numbers, y: Numbers) -> PoolSpectrum:
    """Eigenvalues of the pool's kernel matrix K (P, P) and the power of its targets y, (P,) or (P, outputs).

    Eigenvalues up to P·ε·Λ_max count as 0, as they are rounding errors; ε is at least that of K's precision.

    >>> spectrum = pool_spectrum(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]))
    >>> spectrum.risk(2)  # nothing can be learnt of other inputs
    1.0
    """
    given = check_array("K", K, rank=2)
    K = np.asarray(given, np.float64)
    y = np.asarray(check_array("y", y, rank=(1, 2)), np.float64)
    if K.shape[0] != K.shape[1]:
        raise ShapeError("K", K.shape, "a square matrix")
    check_same_length("K", K, "y", y)
    precision = given.dtype if np.issubdtype(given.dtype, np.floating) else np.float64
    spectrum = decompose(K, precision=precision)
    values, power = spectrum.eigenvalues, ((spectrum.vectors.T @ y.reshape(len(y), -1)) ** 2).sum(axis=1)
    return PoolSpectrum(np.where(values > spectrum.blur, values, 0.0), power)


def omniscient_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
    """The squared error that the spectrum predicts of kernel regression on n of the pool's inputs, for every size.

    K: kernel matrix (P, P) of the pool; y: its targets, (P,) or (P, outputs); ridge: added to the diagonal, in absolute
    terms, not relative to it. The error is the mean over inputs that are not trained on, summed over outputs.

    Sources: Bordelon, Canatar & Pehlevan 2020 (arXiv 2002.02561); Simon et al. 2023 (arXiv 2110.03922); Wei, Hu &
    Steinhardt 2022 (arXiv 2203.06176). The correction for a finite pool is ours; the module has the formula.

    >>> x = np.linspace(0, 1, 40)
    >>> K = np.exp(-np.abs(x[:, None] - x))
    >>> omniscient_risk(K, np.sin(3 * x), [5, 10, 20]).round(4).tolist()
    [0.0224, 0.0035, 0.0005]
    """
    return pool_spectrum(K, y).risks(check_array("sizes", sizes, rank=1), ridge)


def cavity_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
    """Expected squared error of kernel regression on n of the pool's inputs, for every size.

    Arguments and result are those of `omniscient_risk`; it costs about ten inversions of K per size, and holds up to
    the size of the pool. The correction is ours; the module has the formulas.

    >>> x = np.linspace(0, 1, 40)
    >>> K = np.exp(-np.abs(x[:, None] - x))
    >>> cavity_risk(K, np.sin(3 * x), [5, 10, 20]).round(4).tolist()
    [0.0236, 0.0052, 0.001]
    """
    spectrum = pool_spectrum(K, y)
    K, y = np.asarray(K, np.float64), np.asarray(y, np.float64).reshape(len(np.asarray(y)), -1)
    found = []
    for n in np.asarray(check_array("sizes", sizes, rank=1), np.float64):
        _, s = spectrum.effective_ridge(float(n), ridge)
        found.append(float(_input_risks(K, y, float(n), ridge, s).mean()))
    return np.array(found)


def _input_risks(
    K: Float[np.ndarray, "pool pool"],
    y: Float[np.ndarray, "pool outputs"],
    size: float,
    ridge: float,
    start: float,
) -> Float[np.ndarray, " pool"]:
    """r_i, summed over outputs: the squared error at each input if it is not among the `size` drawn inputs.

    start: initial values of s_i, such as those from the spectrum.
    """
    p = size / len(K)
    A, s = _variances(K, p, ridge, start)
    c = (ridge + s) / p
    own = ((c[:, None] * (A @ y)) ** 2).sum(axis=1)
    if p == 1:
        return own
    matrix = A**2 * ((1 - p) / p * c[:, None] ** 2)
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(scipy.linalg.solve(np.eye(len(K)) - matrix, own, overwrite_a=True, check_finite=False))


def _variances(K: np.ndarray, p: float, ridge: float, start: float) -> tuple[np.ndarray, np.ndarray]:
    """(A, s) at the fixed point."""
    x = np.full(len(K), np.log(max(start, 1e-300)))
    points: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    for _ in range(_MOST):
        s = np.exp(x)
        A = _inverse(K, (ridge + s) / p - s)
        new = np.log(np.maximum(p / np.diagonal(A) - ridge, 1e-300))
        change = new - x
        if np.abs(change).max() <= _TOLERANCE:
            return A, np.exp(new)
        points, changes = [*points[-_DEPTH:], x], [*changes[-_DEPTH:], change]
        if len(points) == 1:
            x = new
            continue
        across, along = np.diff(points, axis=0).T, np.diff(changes, axis=0).T
        x = new - (across + along) @ np.linalg.lstsq(along, change, rcond=1e-10)[0]
    raise InvalidArgumentError("ridge", ridge, "one with which the variances settle", "take a larger one")


def _inverse(K: np.ndarray, added: np.ndarray) -> np.ndarray:
    """(K + diag added)⁻¹, symmetric and positive definite."""
    M = K.copy(order="F")
    M[np.diag_indices(len(M))] += added
    factor, failed = scipy.linalg.lapack.dpotrf(M, lower=0, overwrite_a=1)
    if failed:
        raise NotPositiveDefiniteError(
            "kernel matrix", K.shape, "a positive definite one of the pool", "take a larger ridge", verb="has shape"
        )
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    return np.triu(inverse) + np.triu(inverse, 1).T


PREDICTIONS: Mapping[str, Callable[..., np.ndarray]] = {"spectrum": omniscient_risk, "inputs": cavity_risk}
"""How learning curves are predicted, by name."""
