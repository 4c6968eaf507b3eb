"""Confidence intervals of means over inputs, and over sampled elements, by `equitangents.statistics`.

The interval of a table of errors e(g, x) is put together from those of its row means and of its column means
(`statistics.two_way`). Fewer than 5 inputs, or sampled elements, and errors that are all equal give no interval: its
ends are NaN.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents.audit.report.numbers import Estimate, Spread
from equitangents.metrics.measure import Bootstrap
from equitangents.statistics.bootstrap import Bounds, interval_of_mean, resample
from equitangents.statistics.two_way import table_interval

_BLOCKS = 4096  # more inputs than these are averaged in blocks before they are resampled


@final
class Resampler:
    """Intervals of means over `inputs` inputs, and over `elements` elements if these were sampled (else None)."""

    def __init__(self, inputs: int, elements: int | None, bootstrap: Bootstrap):
        self.settings, times, seed = bootstrap, bootstrap.resamples, bootstrap.seed
        self.blocks = np.array_split(np.arange(inputs), min(inputs, _BLOCKS))
        self._columns = resample(len(self.blocks), times, seed)
        self._rows = None if elements is None else resample(elements, times, seed + 1)

    def mean(self, table: Any, bounds: Bounds | None = None) -> Estimate:
        """The mean of values (inputs,) or of a table (elements, inputs), which lie between `bounds`.

        Without bounds, the interval of values of which none is negative holds no negative number.
        """
        table = np.asarray(table, np.float64)
        if bounds is None and table.min() >= 0:
            bounds = (0.0, math.inf)
        mean, level = float(table.mean()), self.settings.confidence
        blocked = self._blocked(table)
        if table.ndim == 1 or self._rows is None:
            values = blocked if table.ndim == 1 else blocked.mean(axis=0)
            low, high = interval_of_mean(values, self._columns, level, bounds)
        else:
            low, high = table_interval(blocked, self._rows, self._columns, level, bounds)
        return Estimate(mean, min(low, mean), max(high, mean)) if low <= high else Estimate(mean, math.nan, math.nan)

    def each(self, table: Float[np.ndarray, "rows inputs"]) -> list[Estimate]:
        """The mean of every row, over inputs alone."""
        return [self.mean(row) for row in table]

    def _blocked(self, table: np.ndarray) -> np.ndarray:
        if len(self.blocks) < table.shape[-1]:
            table = np.stack([table[..., b].mean(axis=-1) for b in self.blocks], axis=-1)
        return table

    def spread(self, table: np.ndarray) -> Spread:
        """Mean with interval, quantiles and maximum."""
        return spread_of(self.mean(table), table)


def spread_of(estimate: Estimate, values: np.ndarray) -> Spread:
    """The distribution of values whose mean is estimated; quantiles are always some of the values."""
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    q05, q25, median, q75, q95 = np.quantile(values, levels, method="inverted_cdf").tolist()
    return Spread(estimate, q05, q25, median, q75, q95, float(np.max(values)))
