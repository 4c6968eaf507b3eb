"""Classification by kernel ridge regression on one-hot targets minus 1/K; the ridge from the training part alone.

α = (Θ + λ)⁻¹ Y, and the residual of sample i when it is left out is α_i/((Θ + λ)⁻¹)_ii: one spectrum serves all ridges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

RIDGES = tuple(10.0 ** (p / 2) for p in range(-14, 3))  # relative to the kernel's mean diagonal


class Classifier(NamedTuple):
    """Scores of classes are `kernel @ weights`; `ridge` is the one that was chosen."""

    weights: Float[np.ndarray, "training classes"]
    ridge: float

    def predict(self, cross: Float[np.ndarray, "n training"]) -> Int[np.ndarray, " n"]:
        """The class with the largest score."""
        return np.argmax(cross @ self.weights, axis=1)


def fit(
    K: Float[np.ndarray, "n n"], y: Int[np.ndarray, " n"], classes: int, ridges: tuple[float, ...] = RIDGES
) -> Classifier:
    """With the smallest of the ridges that get most training samples right, each of them left out in turn.

    A ridge chosen by square error would shrink small training sets so far that their accuracy falls.
    """
    targets = np.eye(classes)[y] - 1 / classes
    values, vectors = np.linalg.eigh(np.asarray(K, np.float64))
    values = np.maximum(values, 0)  # a kernel known to a tolerance may be slightly negative in some directions
    projected, unit = vectors.T @ targets, float(np.diagonal(K).mean())
    best, most = Classifier(np.zeros_like(targets), np.nan), -1
    for ridge in ridges:
        shrunk = 1 / (values + ridge * unit)
        weights = vectors @ (shrunk[:, None] * projected)
        residual = weights / ((vectors**2) @ shrunk)[:, None]
        right = int((np.argmax(targets - residual, axis=1) == y).sum())
        if right > most:
            best, most = Classifier(weights, ridge), right
    return best
