"""The learning curve that a pool predicts with a variance of its own for every input.

As `omniscient`, where all inputs share one s. Here s_i is what is left of input i's variance, 1/A_ii = (δ + s_i)/p with
A = (K + diag κ)⁻¹, κ_i = (δ + s_i)/p − s_i, found by Anderson's iteration on log s. With c_i = κ_i + s_i the residuals
of inputs that were not drawn have the mean c_i (A y)_i and the mean square r_i,
    r_i = c_i² [ (A y)_i² + ((1 − p)/p) Σ_{j≠i} A_ij² r_j ].
At n = P, c_i (A y)_i is the residual of leaving i out, exactly. Data with inputs that are far easier than others (all
ones of MNIST look alike) need this; the spectrum alone does not know which inputs are easy.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.extending import Numbers, check_array
from equitangents_studies.systems.omniscient import pool_spectrum
from equitangents_studies.systems.predictions_checked import warn_where_missed

_TOLERANCE = 1e-4  # of log s, largest change
_DEPTH = 4  # steps that Anderson's iteration remembers
_MOST = 100


def cavity_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float = 0.0) -> Float[np.ndarray, " sizes"]:
    """The squared error to expect of kernel regression on n of the pool's inputs, for every size.

    Arguments and result as those of `omniscient_risk`; it costs about ten inversions of K for every size, and holds for
    sizes up to the pool's own. The correction is ours; the module has the formulas. A few random training sets of the
    largest size are trained on, too: where they show another error, a warning is logged.

    >>> x = np.linspace(0, 1, 40)
    >>> K = np.exp(-np.abs(x[:, None] - x))
    >>> cavity_risk(K, np.sin(3 * x), [5, 10, 20]).round(4).tolist()
    [0.0236, 0.0052, 0.001]
    """
    risks = unchecked_risk(K, y, sizes, ridge=ridge)
    warn_where_missed("cavity_risk", K, y, sizes, risks, ridge)
    return risks


def unchecked_risk(K: Numbers, y: Numbers, sizes: Numbers, *, ridge: float) -> Float[np.ndarray, " sizes"]:
    """As `cavity_risk`, without training sets beside it."""
    spectrum = pool_spectrum(K, y)
    K, y = np.asarray(K, np.float64), np.asarray(y, np.float64).reshape(len(np.asarray(y)), -1)
    found = []
    for n in np.asarray(check_array("sizes", sizes, rank=1), np.float64):
        _, s = spectrum.effective_ridge(float(n), ridge)
        found.append(float(input_risks(K, y, float(n), ridge, s).mean()))
    return np.array(found)


def input_risks(
    K: Float[np.ndarray, "pool pool"],
    y: Float[np.ndarray, "pool outputs"],
    size: float,
    ridge: float,
    start: float,
) -> Float[np.ndarray, " pool"]:
    """r_i, summed over outputs: the squared error at each input when it is not among the `size` that are drawn.

    start: a guess of all s_i, such as the one that the spectrum gives.
    """
    p = size / len(K)
    A, s = _variances(K, p, ridge, start)
    c = (ridge + s) / p
    own = ((c[:, None] * (A @ y)) ** 2).sum(axis=1)
    if p == 1:
        return own
    spread = A**2 * ((1 - p) / p * c[:, None] ** 2)
    np.fill_diagonal(spread, 0.0)
    return np.asarray(scipy.linalg.solve(np.eye(len(K)) - spread, own, overwrite_a=True, check_finite=False))


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
    raise InvalidArgumentError(
        f"ridge is {ridge!r}, with which the variances of {len(K)} inputs do not settle; take a larger one"
    )


def _inverse(K: np.ndarray, added: np.ndarray) -> np.ndarray:
    """(K + diag added)⁻¹, symmetric and positive definite."""
    M = K.copy(order="F")
    M[np.diag_indices(len(M))] += added
    factor, failed = scipy.linalg.lapack.dpotrf(M, lower=0, overwrite_a=1)
    if failed:
        raise NotPositiveDefiniteError(
            f"the kernel matrix of the pool's {len(K)} inputs is not positive definite; take a larger ridge"
        )
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    return np.triu(inverse) + np.triu(inverse, 1).T
