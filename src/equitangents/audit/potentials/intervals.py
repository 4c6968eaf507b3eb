"""Means of errors over structures and moves, with intervals over whichever of both are enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.audit.measure.intervals import Resampler
from equitangents.audit.report.sections import Estimate
from equitangents.statistics.bootstrap import FEWEST

ENOUGH = 10
"""Structures, from which means have an interval over these; of fewer it is for these structures alone."""


@dataclass(frozen=True)
class Sampling:
    """How intervals are found."""

    confidence: float
    resamples: int
    seed: int

    def mean(self, table: Float[np.ndarray, "moves structures"], moves: str = "moves") -> tuple[Estimate, str]:
        """The mean and what its interval is over: structures, from 10 on, and moves, from 5 on; or one of them."""
        table = np.asarray(table, np.float64)
        E, n = table.shape
        resampler = lambda inputs, elements: Resampler(inputs, elements, self.confidence, self.resamples, self.seed)
        if n >= ENOUGH and E >= FEWEST:
            return resampler(n, E).mean(table), f"structures and {moves}"
        if n >= ENOUGH:
            return resampler(n, None).mean(table.mean(axis=0)), "structures"
        if E >= FEWEST:
            return resampler(E, None).mean(table.mean(axis=1)), f"{moves}, for these structures"
        return Estimate(float(table.mean()), math.nan, math.nan), ""

    def root_mean_square(self, squares: np.ndarray, moves: str) -> tuple[Estimate, str]:
        """√ of the mean of squares, and of its ends."""
        e, covers = self.mean(squares, moves)
        return Estimate(*(math.sqrt(max(v, 0.0)) if not math.isnan(v) else v for v in (e.mean, e.low, e.high))), covers
