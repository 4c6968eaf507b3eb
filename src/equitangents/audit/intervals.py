"""Confidence intervals of means over inputs, and over sampled elements: the bootstrap, two-way where both are samples.

A table of errors e(g, x) is resampled by rows and columns independently (Owen 2007, "The pigeonhole bootstrap"), which
never understates the variance. Percentiles are expanded to the width of Student's t (Hesterberg 2015, section 5.3.2),
since plain ones are too narrow for few inputs.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.audit.sections import Estimate, Spread
from equitangents.metrics.measure import Bootstrap

_BLOCKS = 4096  # more inputs than these are averaged in blocks before they are resampled


@final
class Resampler:
    """Intervals of means over `inputs` inputs, and over `elements` elements if these were sampled (else None)."""

    def __init__(self, inputs: int, elements: int | None, confidence: float, resamples: int, seed: int):
        self.settings = Bootstrap(confidence, resamples, seed)
        rng = np.random.default_rng(seed)
        self.blocks = np.array_split(np.arange(inputs), min(inputs, _BLOCKS))
        sizes = np.array([len(b) for b in self.blocks], float)
        n = len(sizes)
        self._columns = rng.multinomial(n, np.full(n, 1 / n), resamples) * sizes
        self._columns /= self._columns.sum(axis=1, keepdims=True)
        self._rows = None
        if elements is not None and elements > 1:
            self._rows = rng.multinomial(elements, np.full(elements, 1 / elements), resamples) / elements
        counts = [c for c in (n, elements) if c is not None and c > 1]
        self._tail = _expanded_tail((1 - confidence) / 2, min(counts)) if counts else 0.5

    def columns(self, table: Float[np.ndarray, "... inputs"]) -> np.ndarray:
        """Means over inputs of every resample, (resamples, …)."""
        if len(self.blocks) < table.shape[-1]:
            table = np.stack([table[..., b].mean(axis=-1) for b in self.blocks], axis=-1)
        return np.einsum("bn,...n->b...", self._columns, table, optimize=True)

    def mean(self, table: Any) -> Estimate:
        """The mean of values (inputs,) or of a table (elements, inputs)."""
        table = np.asarray(table, np.float64)
        mean = float(table.mean())
        if not np.isfinite(table).all():
            finite = table[np.isfinite(table)]
            return Estimate(mean, float(finite.mean()) if len(finite) else math.inf, math.inf)
        means = self.columns(table)
        if table.ndim == 2:
            means = means.mean(axis=1) if self._rows is None else (means * self._rows).sum(axis=1)
        return Estimate(mean, *self.limits(means, mean))

    def limits(self, resampled: np.ndarray, value: float) -> tuple[float, float]:
        """The interval from resampled values; it holds `value`."""
        low, high = np.quantile(resampled, [self._tail, 1 - self._tail])
        return min(float(low), value), max(float(high), value)

    def spread(self, table: np.ndarray) -> Spread:
        """Mean with interval, quantiles and maximum."""
        quantiles = np.quantile(table, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf")
        return Spread(self.mean(table), *(float(q) for q in quantiles), float(np.max(table)))


def _expanded_tail(tail: float, n: int) -> float:
    return float(scipy.special.ndtr(-math.sqrt(n / (n - 1)) * scipy.special.stdtrit(n - 1, 1 - tail)))
