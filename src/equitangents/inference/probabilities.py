"""The probability that an output is the largest: P_k = ∫ N(z; 0, 1) Π_{j≠k} Φ((μ_k + σ_k z − μ_j)/σ_j) dz."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr, roots_hermitenorm

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.validation import check_array

_NODES = 64
_MOST_NODES = 512


def argmax_probabilities(mean: Any, std: Any) -> np.ndarray:
    """P(output k is the largest) for independent Gaussian outputs, (N, K), rows summing to 1.

    mean: (N, K); std: (N,), the same for all outputs, or (N, K). By Gauss-Hermite quadrature: to 1e-9 where the
    outputs share their std, to about 1e-2 where the stds of one row differ a hundredfold. With a shared std the most
    probable output is the argmax of the mean; std 0 gives it all the probability, shared equally among ties.

    >>> import numpy as np
    >>> argmax_probabilities(np.array([[0.0, 0.0, 0.0]]), np.array([1.0])).round(6).tolist()
    [[0.333333, 0.333333, 0.333333]]
    """
    mean = np.asarray(check_array("mean", mean, rank=2, allow_empty=True), dtype=np.float64)
    std = np.asarray(check_array("std", std, rank=(1, 2), allow_empty=True), dtype=np.float64)
    if std.ndim == 1:
        std = std[:, None]
    if len(std) != len(mean) or std.shape[1] not in (1, mean.shape[1]):
        raise ShapeError(f"std has shape {std.shape}; expected {(len(mean),)} or {mean.shape}")
    if (std < 0).any():
        raise InvalidArgumentError(f"std holds negative values, the smallest {std.min():g}; expected ≥ 0")
    if mean.size == 0:
        return np.zeros(mean.shape)
    sigma = np.broadcast_to(np.maximum(std, np.finfo(np.float64).tiny), mean.shape)
    nodes, weights = roots_hermitenorm(_node_count(sigma))
    weights = weights / weights.sum()
    probabilities = np.stack([_largest(k, mean, sigma, nodes, weights) for k in range(mean.shape[1])], axis=1)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def _largest(k: int, mean: np.ndarray, sigma: np.ndarray, nodes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    log_product = np.zeros((len(mean), len(nodes)))
    with np.errstate(over="ignore"):  # gaps of many std: Φ is 0 or 1
        for j in range(mean.shape[1]):
            if j != k:
                gap = (mean[:, k] - mean[:, j]) / sigma[:, j]
                log_product += log_ndtr(gap[:, None] + (sigma[:, k] / sigma[:, j])[:, None] * nodes)
    return np.exp(log_product) @ weights


def _node_count(sigma: np.ndarray) -> int:
    """Where one output is much more uncertain than another, Φ is steep in z and needs more nodes."""
    ratio = float((sigma.max(axis=1) / sigma.min(axis=1)).max())
    return int(min(_MOST_NODES, _NODES * max(1.0, ratio)))
