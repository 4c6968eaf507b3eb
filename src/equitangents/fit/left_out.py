"""Predictions of samples that were left out, for many ridges, from one decomposition Θ = U Λ Uᵀ.

Samples of one set I leave together. With G = (Θ + δ_I)⁻¹ the training without them predicts y − e there,
e = G_II⁻¹ (G y)_I, δ_I being the ridge times the mean diagonal of the others (`inference.leave_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.inference import decompose
from equitangents.inference.leave_out import errors_without
from equitangents.inference.spectrum import Spectrum, is_positive

RIDGES = tuple(float(10.0**power) for power in (*range(-16, -9), *np.arange(-9.0, 4.5, 0.5), 5, 6, 7))
"""From below what kernels in double precision can tell to where predictions only become smaller together."""

Sets = Sequence[Int[np.ndarray, " m"]]

_STEPS = 16  # halvings of the logarithm of β, which leave 0.03 % of it
_HOT, _COLD = -8.0, 12.0  # its ends, for outputs of size 1


@dataclass(frozen=True, eq=False)
class Gram:
    """A training kernel (n, n), averaged over `order` elements of a group (1 without).

    variances: (n,), the diagonal before it was averaged, of which the ridge's unit is the mean over `order`.
    """

    matrix: Float[np.ndarray, "n n"]
    variances: Float[np.ndarray, " n"]
    order: int = 1
    precision: str = "float64"

    def part(self, rows: Int[np.ndarray, " m"]) -> Gram:
        """The kernel of some of the samples."""
        return Gram(self.matrix[np.ix_(rows, rows)], self.variances[rows], self.order, self.precision)


@dataclass(frozen=True, eq=False)
class Solved:
    """A training kernel with its targets (n, outputs), decomposed once; `sets` hold every sample once."""

    gram: Gram
    targets: Float[np.ndarray, "n outputs"]
    sets: Sets

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of the kernel without a ridge; raises NotPositiveDefiniteError where it is no kernel."""
        gram, n = self.gram, len(self.targets)
        variance = float(gram.variances.mean())
        size = variance * n**0.5 if gram.order > 1 else 0.0  # of what was averaged: means may all but vanish
        return decompose(gram.matrix, ridge_unit=variance / gram.order, precision=gram.precision, scale=size)

    @cached_property
    def ridges(self) -> tuple[float, ...]:
        """The values of `RIDGES` with which the kernel is invertible in its precision."""
        at, unit = self.spectrum, self.spectrum.ridge_unit
        return tuple(r for r in RIDGES if is_positive(at.smallest + r * unit, at.largest + r * unit, at.blur))

    def left_out(self, ridge: float) -> Float[np.ndarray, "n outputs"]:
        """Each sample's outputs after training without its set."""
        traces = self.gram.variances / self.gram.order
        decomposition = self.spectrum.eigenvalues, self.spectrum.vectors, self._along
        found = np.full(self.targets.shape, np.nan)
        for rows in self._blocks:
            shifts = ridge * (traces.sum() - traces[rows].sum(axis=1)) / (len(traces) - rows.shape[1])
            ones = np.ones(rows.shape)
            found[rows] = self.targets[rows] - errors_without(*decomposition, rows, shifts, ones, 0 * ones)
        return found

    def predicted(self, cross: Float[np.ndarray, "m n"], ridge: float) -> Float[np.ndarray, "m outputs"]:
        """Outputs for inputs whose kernels with the training samples are `cross`."""
        at = self.spectrum
        return (cross @ at.vectors / (at.eigenvalues + ridge * at.ridge_unit)) @ self._along

    @cached_property
    def _blocks(self) -> list[np.ndarray]:
        """The sets of each size, (sets, size)."""
        sizes = sorted({len(each) for each in self.sets})
        return [np.stack([each for each in self.sets if len(each) == size]) for size in sizes]

    @cached_property
    def _along(self) -> np.ndarray:
        return self.spectrum.vectors.T @ self.targets


def weights_of(labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """What each sample counts, so that all classes that are there count as much, with mean 1."""
    counts = np.bincount(labels)
    return (1 / counts[labels]) * len(labels) / np.count_nonzero(counts)


def calibrated(
    outputs: Float[np.ndarray, "ridges n classes"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " ridges"]:
    """β of the smallest log loss of softmax(β·outputs): 0 where they tell nothing, NaN if they are not finite.

    1/β is the temperature of `classifier.fitted_temperature`, whose targets these are.
    """
    ridges, n, K = outputs.shape
    size = np.abs(outputs).max(axis=(1, 2))
    aimed = np.full((n, K), 1 / ((n + 2) * (K - 1)))
    aimed[np.arange(n), labels] = (n + 1) / (n + 2)
    scaled = outputs / np.where(size > 0, size, 1.0)[:, None, None]

    def slope(beta: np.ndarray) -> np.ndarray:
        return ((scipy.special.softmax(beta[:, None, None] * scaled, axis=2) - aimed) * scaled).sum(axis=(1, 2))

    tells = slope(np.zeros(ridges)) < 0
    low, high = np.full(ridges, _HOT), np.full(ridges, _COLD)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        rising = slope(np.exp(middle)) < 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    found = np.where(tells, np.exp((low + high) / 2) / np.where(size > 0, size, 1.0), 0.0)
    return np.where(np.isfinite(size), found, np.nan)


def log_losses(
    logits: Float[np.ndarray, "*more n classes"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "*more n"]:
    """−log softmax(logits) at each sample's label."""
    return -scipy.special.log_softmax(logits, axis=-1)[..., np.arange(len(labels)), labels]
