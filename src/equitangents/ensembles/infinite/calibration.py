"""The temperature at which probabilities are right as often as they say: softmax(μ/T) of samples that were left out.

The log loss −(1/N) Σ_i Σ_k p_ik log softmax(μ_i/T)_k is convex in 1/T and has one minimum. μ_i are predictions of the
samples left out, exact (`held_out`), so no sample is lost to calibration. Targets are those of Platt: the true class
counts (N + 1)/(N + 2), the others share the rest, so that T is positive where all are predicted right.

Sources: Platt 1999, Probabilistic outputs for support vector machines; Guo et al. 2017 (arXiv 1706.04599).
"""

from __future__ import annotations

import logging
import math

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float

from equitangents.errors import NotFiniteError

logger = logging.getLogger("equitangents")


def fitted_temperature(
    outputs: Float[np.ndarray, "n *positions k"], targets: Float[np.ndarray, "n *positions k"]
) -> float:
    """The temperature of the smallest log loss of left-out outputs against one-hot targets, inf if they tell nothing.

    Of fields every position counts, and N is the number of samples, since positions of one sample are not independent.

    >>> import numpy as np
    >>> outputs = np.log([[0.7, 0.3]] * 10)
    >>> right = np.eye(2)[[0] * 7 + [1] * 3]
    >>> bool(1 < fitted_temperature(outputs, right) < 1.6)
    True
    """
    K, samples = outputs.shape[-1], len(outputs)
    outputs, true = outputs.reshape(-1, K), np.argmax(targets, axis=-1).reshape(-1)
    size = float(np.abs(outputs).max())
    if not math.isfinite(size):
        raise NotFiniteError("calibrate is True, and predictions of left-out samples are not finite numbers")
    aimed = np.full(outputs.shape, 1 / ((samples + 2) * (K - 1)))
    aimed[np.arange(len(true)), true] = (samples + 1) / (samples + 2)
    scaled = outputs / (size or 1.0)

    def slope(log_inverse: float) -> float:
        """d loss / d(1/T) at 1/T = e^log_inverse."""
        p = scipy.special.softmax(math.exp(log_inverse) * scaled, axis=1)
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
    return (size or 1.0) / math.exp(float(scipy.optimize.brentq(slope, low, high, xtol=1e-12)))
