"""How far outputs differ between inputs: √(Σ ‖f(x_i) − f̄‖²/(n − 1)), gathered batch by batch."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from jaxtyping import Num


@final
class RunningSpread:
    """Sums about the first row, in units of the largest entry: exactly 0 for a constant, and no overflow."""

    def __init__(self) -> None:
        self._first: np.ndarray | None = None
        self._unit = 1.0
        self._sum: np.ndarray | float = 0.0
        self._squares = 0.0
        self._count = 0

    def add(self, y: Num[np.ndarray, "n D"]) -> None:
        """Take one more batch of outputs into account."""
        if self._first is None:
            self._first = y[0].astype(np.float64)
            self._unit = float(np.abs(y).max(initial=0.0)) or 1.0
        d = y / self._unit - self._first / self._unit
        self._sum = self._sum + d.sum(axis=0)
        self._squares += float((d**2).sum())
        self._count += len(y)

    @property
    def value(self) -> float:
        """The spread; nan for fewer than two rows."""
        n = self._count
        if n < 2:
            return math.nan
        return self._unit * math.sqrt(max(self._squares - float((self._sum**2).sum()) / n, 0.0) / (n - 1))  # type: ignore[union-attr]
