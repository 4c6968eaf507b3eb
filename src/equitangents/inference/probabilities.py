"""The probability that an output is the largest: P_k = ∫ f_k(u) Π_{j≠k} F_j(u) du, Gaussian densities f and laws F.

All outputs share one line of values u: with x_j = (u − μ_j)/σ_j the integrand is (φ(x_k)/Φ(x_k)) Π_j Φ(x_j)/σ_k.
The product vanishes below max_j (μ_j − 8.5 σ_j). F_j is 1 above μ_j + 8.5 σ_j, so that panels may grow: each is
1.5 times the smallest σ_j of the outputs that still change, with 20 Gauss-Legendre nodes.

Calibrated probabilities are softmax(μ/T): the log loss −(1/N) Σ_i Σ_k p_ik log softmax(μ_i/T)_k is convex in 1/T and
has one minimum. Its targets are Platt's: (N + 1)/(N + 2) for the true class, the rest shared by the others, so that T
is positive even if all predictions are correct. Sources: Platt 1999, Probabilistic outputs for support vector machines;
Guo et al. 2017 (arXiv 1706.04599).
"""

from __future__ import annotations

import logging
import math

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int
from scipy.special import ndtr, softmax

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.validation import check_array

logger = logging.getLogger("equitangents")

_REACH = 8.5  # standard deviations beyond which Φ is 0 or 1 to 1e-17
_PANEL = 1.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_ERROR = 1e-9
_STEEP = 1e-3  # of the bounding std: steeper outputs change only where that one's law is below 1e-16
_SMALLEST = 1e-150  # a std below this part of the row's size is that of a certain output
_BLOCK_ENTRIES = 2**20
_NOISE = 1e-12  # of the targets: outputs of left-out samples that are smaller are rounding
_LOG_INVERSE, _HALVINGS = (-8.0, 12.0), 16  # where the logarithm of 1/T is bisected, for outputs of size 1


def argmax_probabilities(mean: Numbers, std: Numbers) -> np.ndarray:
    """Probability that output k is the largest of independent Gaussian outputs, (N, K), rows summing to 1.

    mean: (N, K); std: (N,), the same for all outputs, or (N, K). By composite Gauss-Legendre quadrature, to 1e-9 for
    2 to 1,000 outputs and any ratio of their stds; otherwise InvalidArgumentError gives the accuracy reached. With a
    shared std the most probable output is the argmax of the mean; std 0 gives it all the probability, shared equally
    among ties.

    >>> import numpy as np
    >>> argmax_probabilities(np.array([[0.0, 0.0, 0.0]]), np.array([1.0])).round(6).tolist()
    [[0.333333, 0.333333, 0.333333]]
    """
    mean = np.asarray(check_array("mean", mean, rank=2, allow_empty=True), dtype=np.float64)
    std = np.asarray(check_array("std", std, rank=(1, 2), allow_empty=True), dtype=np.float64)
    if std.ndim == 1:
        std = std[:, None]
    if len(std) != len(mean) or std.shape[1] not in (1, mean.shape[1]):
        raise ShapeError("std", std.shape, mean.shape, "or one for each row")
    if (std < 0).any():
        raise InvalidArgumentError("std", float(std.min()), "≥ 0", verb="holds negative values, the smallest")
    if mean.size == 0:
        return np.zeros(mean.shape)
    std = np.broadcast_to(std, mean.shape)
    step = max(1, _BLOCK_ENTRIES // (mean.shape[1] * len(_NODES)))
    return np.concatenate([_block(mean[i : i + step], std[i : i + step]) for i in range(0, len(mean), step)])


def _block(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    offset, sigma, bound = _normalised(mean, std)
    probabilities = np.empty(mean.shape)
    rows, error = np.arange(len(mean)), 0.0
    for refinement in range(4):
        found = _integrals(offset[rows], sigma[rows], bound[rows], _PANEL / 2**refinement)
        total = found.sum(axis=1, keepdims=True)  # ∫ d(Π F): 1 up to the error of the quadrature
        probabilities[rows] = found / total
        off = ~(np.abs(total[:, 0] - 1) <= _ERROR / 10)
        if not off.any():
            return probabilities
        rows, error = rows[off], float(np.abs(total[off] - 1).max())
    raise InvalidArgumentError(
        "mean",
        int(rows[0]),
        "rows whose probabilities are known",
        f"the error is {error:.1e}",
        verb="and std are too large in row",
    )


def _integrals(offset: np.ndarray, sigma: np.ndarray, bound: np.ndarray, panel: float) -> np.ndarray:
    """P, (N, K), with panels of `panel` standard deviations."""
    end, start = offset + _REACH * sigma, -_REACH * bound
    found = np.zeros(offset.shape)
    rows = np.arange(len(offset))
    while len(rows):
        d, s, a = offset[rows], sigma[rows], start[rows]
        finest = np.where(end[rows] > a[:, None], s, np.inf).min(axis=1)
        width = panel * np.maximum(finest, _STEEP * bound[rows])
        x = ((a[:, None] + width[:, None] * (1 + _NODES) / 2)[:, None, :] - d[..., None]) / s[..., None]
        below = ndtr(x)
        hazard = np.exp(-(np.clip(x, -40.0, 40.0) ** 2) / 2) / (np.maximum(below, 1e-300) * math.sqrt(2 * math.pi))
        mass = below.prod(axis=1) * (_WEIGHTS * width[:, None] / 2)
        found[rows] += np.einsum("nkm,nm->nk", hazard, mass) / s
        start[rows] += width
        rows = rows[(end[rows] > start[rows, None]).any(axis=1)]
    return found


def _normalised(mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(means relative to the output with the largest lower bound, stds, that output's std), scaled by each row's size.

    Scales are powers of 2, so that differences of means keep their accuracy.
    """
    size = lambda *parts: np.frexp(np.max([np.abs(p).max(axis=1) for p in parts], axis=0))[1]
    unit = lambda *parts: np.exp2(np.clip(-size(*parts), -1000, 1000))[:, None]
    first = unit(mean, std)
    mean, std = mean * first, std * first
    bounding = (mean - _REACH * std).argmax(axis=1)[:, None]
    offset = mean - np.take_along_axis(mean, bounding, axis=1)
    second = unit(offset, std)
    sigma = np.maximum(std * second, _SMALLEST)
    return offset * second, sigma, np.take_along_axis(sigma, bounding, axis=1)[:, 0]


def fitted_temperature(
    outputs: Float[np.ndarray, "n *positions k"], targets: Float[np.ndarray, "n *positions k"]
) -> float:
    """The temperature with the smallest log loss of left-out outputs against one-hot targets; inf if uninformative.

    For fields every position counts, and N is the number of samples, since positions of one sample are not independent.

    >>> import numpy as np
    >>> outputs = np.log([[0.7, 0.3]] * 10)
    >>> right = np.eye(2)[[0] * 7 + [1] * 3]
    >>> bool(1 < fitted_temperature(outputs, right) < 1.6)
    True
    """
    K, samples = outputs.shape[-1], len(outputs)
    outputs, labels = outputs.reshape(-1, K), np.argmax(targets, axis=-1).reshape(-1)
    size = float(np.abs(outputs).max())
    if not math.isfinite(size):
        raise NotFiniteError("calibrate is True, and predictions of left-out samples are not finite numbers")
    if size <= _NOISE * float(np.abs(targets).max()):
        size, outputs = 0.0, np.zeros_like(outputs)
    aimed, scaled = _platt_targets(labels, K, samples), outputs / (size or 1.0)

    def slope(log_inverse: float) -> float:
        """d loss / d(1/T) at 1/T = e^log_inverse."""
        p = softmax(math.exp(log_inverse) * scaled, axis=1)
        return float(((p - aimed) * scaled).sum(axis=1).mean())

    if not slope(-math.inf) < 0:
        logger.warning(
            "calibrate: left-out samples are predicted no better than by chance, so every class is as likely"
        )
        return math.inf
    low, high = -1.0, 1.0
    while slope(low) > 0:
        low -= 2.0
    while slope(high) < 0:
        high += 2.0
    return size / math.exp(float(scipy.optimize.brentq(slope, low, high, xtol=1e-12)))


def inverse_temperatures(outputs: Float[np.ndarray, "m n k"], labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """1/T of `fitted_temperature` to 0.03 % for many outputs at once: 0 if they tell nothing, NaN if not finite.

    Targets are of size 1.
    """
    count, samples, K = outputs.shape
    size = np.abs(outputs).max(axis=(1, 2))
    units = np.where(size > 0, size, 1.0)
    aimed, scaled = _platt_targets(labels, K, samples), outputs / units[:, None, None]

    def slope(inverse: np.ndarray) -> np.ndarray:
        return ((softmax(inverse[:, None, None] * scaled, axis=2) - aimed) * scaled).sum(axis=(1, 2))

    informative = (slope(np.zeros(count)) < 0) & (size > _NOISE)
    low, high = (np.full(count, end) for end in _LOG_INVERSE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = slope(np.exp(middle)) < 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    inverse = np.where(informative, np.exp((low + high) / 2) / units, 0.0)
    return np.where(np.isfinite(size), inverse, np.nan)


def _platt_targets(labels: Int[np.ndarray, " n"], classes: int, samples: int) -> Float[np.ndarray, "n k"]:
    targets = np.full((len(labels), classes), 1 / ((samples + 2) * (classes - 1)))
    targets[np.arange(len(labels)), labels] = (samples + 1) / (samples + 2)
    return targets
