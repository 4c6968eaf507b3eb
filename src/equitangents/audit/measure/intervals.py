"""Confidence intervals of means over inputs, and over sampled elements: the studentised bootstrap.

A table of errors e(g, x) is resampled by rows and columns independently (Owen 2007, "The pigeonhole bootstrap"), which
never understates the variance. Each resample's deviation is divided by its own standard error (bootstrap-t, Efron &
Tibshirani 1993, chapter 12): relative errors are skewed, and percentiles would cover too little. Fewer than 8 inputs
or elements get percentiles, expanded to the width of Student's t (Hesterberg 2015, section 5.3.2).
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.audit.report.sections import Estimate, Spread
from equitangents.metrics.measure import Bootstrap

_FEWEST = 8
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
        self._smallest = min(counts, default=1)
        self._tail = _expanded_tail((1 - confidence) / 2, min(counts)) if counts else 0.5

    def columns(self, table: Float[np.ndarray, "... inputs"]) -> np.ndarray:
        """Means over inputs of every resample, (resamples, …)."""
        return np.einsum("bn,...n->b...", self._columns, self._blocked(table), optimize=True)

    def mean(self, table: Any) -> Estimate:
        """The mean of values (inputs,) or of a table (elements, inputs)."""
        table = np.asarray(table, np.float64)
        mean = float(table.mean())
        if not np.isfinite(table).all():
            finite = table[np.isfinite(table)]
            return Estimate(mean, float(finite.mean()) if len(finite) else math.inf, math.inf)
        blocked = self._blocked(table)
        if table.ndim == 1 or self._rows is None:
            values = blocked if table.ndim == 1 else blocked.mean(axis=0)
            moments = self._columns @ values, self._columns @ values**2
            variance = lambda one, two: np.maximum(two - one**2, 0.0) / max(len(values) - 1, 1)
            resampled, errors = moments[0], np.sqrt(variance(*moments))
            error = math.sqrt(float(variance(values.mean(), (values**2).mean())))
        else:
            resampled, errors, error = self._two_way(blocked)
        low, high = self._student(mean, error, resampled, errors)
        return Estimate(mean, max(low, min(float(table.min()), mean)), high)

    def each(self, table: Float[np.ndarray, "rows inputs"]) -> list[Estimate]:
        """The mean of every row, over inputs alone."""
        return [self.mean(row) for row in table]

    def _two_way(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """(means, standard errors) of resamples, and the table's own standard error; inputs and elements vary."""
        assert self._rows is not None
        E, n = table.shape
        by_element, by_input = self._columns @ table.T, self._rows @ table
        means = (by_element * self._rows).sum(axis=1)
        spread = lambda values, weights: np.maximum((values**2 * weights).sum(axis=1) - means**2, 0.0)
        squares = spread(by_element, self._rows) / (E - 1) + spread(by_input, self._columns) / max(n - 1, 1)
        own = table.mean(axis=1).var(ddof=1) / E + (table.mean(axis=0).var(ddof=1) / n if n > 1 else 0.0)
        return means, np.sqrt(squares), math.sqrt(float(own))

    def _student(self, mean: float, error: float, resampled: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
        used = errors > 1e-6 * error
        if self._smallest < _FEWEST or error == 0 or used.mean() < 0.99:
            return self.limits(resampled, mean)
        t = (resampled[used] - mean) / errors[used]
        tail = (1 - self.settings.confidence) / 2
        low, high = np.quantile(t, [tail, 1 - tail])
        ends = mean - float(high) * error, mean - float(low) * error
        # the wider of both: the skewed side is the student's, the other often the percentiles'
        plain = self.limits(resampled, mean)
        return min(ends[0], plain[0]), max(ends[1], plain[1])

    def _blocked(self, table: np.ndarray) -> np.ndarray:
        if len(self.blocks) < table.shape[-1]:
            table = np.stack([table[..., b].mean(axis=-1) for b in self.blocks], axis=-1)
        return table

    def limits(self, resampled: np.ndarray, value: float) -> tuple[float, float]:
        """The percentile interval from resampled values; it holds `value`."""
        low, high = np.quantile(resampled, [self._tail, 1 - self._tail])
        return min(float(low), value), max(float(high), value)

    def spread(self, table: np.ndarray) -> Spread:
        """Mean with interval, quantiles and maximum."""
        return spread_of(self.mean(table), table)


def spread_of(estimate: Estimate, values: np.ndarray) -> Spread:
    """The distribution of values whose mean is estimated; quantiles are always some of the values."""
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    q05, q25, median, q75, q95 = np.quantile(values, levels, method="inverted_cdf").tolist()
    return Spread(estimate, q05, q25, median, q75, q95, float(np.max(values)))


def _expanded_tail(tail: float, n: int) -> float:
    return float(scipy.special.ndtr(-math.sqrt(n / (n - 1)) * scipy.special.stdtrit(n - 1, 1 - tail)))
