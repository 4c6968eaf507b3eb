"""Energies from a kernel between molecules: an energy for each element first, then kernel ridge regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents.molecules import Molecules

RIDGES = tuple(10.0**p for p in range(-10, 2))  # relative to the kernel's mean diagonal
_FOLDS = 5


class Fit(NamedTuple):
    """Predictions of some molecules are `composition @ elements + kernel @ weights`."""

    elements: Float[np.ndarray, " elements"]
    weights: Float[np.ndarray, " training"]


def composition(molecules: Molecules, elements: tuple[int, ...]) -> Float[np.ndarray, "n elements"]:
    """How many atoms of each element molecules have."""
    return (molecules.atomic_numbers[:, :, None] == np.array(elements)).sum(axis=1).astype(float)


def fits(K: np.ndarray, counts: np.ndarray, y: np.ndarray, ridges: tuple[float, ...] = RIDGES) -> list[Fit]:
    """For every ridge: least squares on the elements first, then the kernel on what it leaves."""
    base = np.linalg.lstsq(counts, y, rcond=None)[0]
    values, vectors = np.linalg.eigh(K)
    projected = vectors.T @ (y - counts @ base)
    unit = float(np.diagonal(K).mean())
    return [Fit(base, vectors @ (projected / _away_from_zero(values, ridge * unit))) for ridge in ridges]


def _away_from_zero(values: np.ndarray, ridge: float) -> np.ndarray:
    """λ + ridge; directions in which a kernel known to a tolerance is negative count as zero."""
    return np.maximum(values, 0) + ridge


def cross_validation(K: np.ndarray, counts: np.ndarray, y: np.ndarray, seed: int) -> Float[np.ndarray, " ridges"]:
    """Mean absolute error of every ridge over five folds."""
    fold = np.random.default_rng(seed).permutation(len(y)) % _FOLDS
    errors = np.zeros((len(RIDGES), len(y)))
    for f in range(_FOLDS):
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        for r, fit in enumerate(fits(K[np.ix_(train, train)], counts[train], y[train])):
            predicted = counts[test] @ fit.elements + K[np.ix_(test, train)] @ fit.weights
            errors[r, test] = np.abs(predicted - y[test])
    return errors.mean(axis=1)


def best_fit(K: np.ndarray, counts: np.ndarray, y: np.ndarray, seed: int) -> tuple[Fit, float]:
    """The fit with the ridge that cross-validation on the training set likes best, and that ridge."""
    ridge = RIDGES[int(np.argmin(cross_validation(K, counts, y, seed)))]
    return fits(K, counts, y, (ridge,))[0], ridge
