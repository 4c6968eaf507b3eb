"""How far outputs differ between inputs and their moved copies, gathered batch by batch:

√(Σ_g Σ_i ‖f(ρ(g)x_i) − f̄‖² / ((n − 1)(E + 1))) over n inputs, the identity and E elements, f̄ the mean over all. Of an
invariant f it is the spread between the inputs alone. A sample of one kind, such as upright pages, has a small one,
beside which any violation looks large: what the model says of turned pages belongs to how far its outputs differ.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
from jaxtyping import Num


@final
class RunningSpread:
    """Sums about the first row, in units of the largest entry: exactly 0 for a constant, and no overflow.

    `copies`: how often every input is given, moved or not.
    """

    def __init__(self, copies: int = 1) -> None:
        self._copies = copies
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
        d = y / self._unit
        d -= self._first / self._unit
        self._sum = self._sum + d.sum(axis=0)
        self._squares += float(np.vdot(d, d))
        self._count += len(y)

    @property
    def value(self) -> float:
        """The spread; nan for fewer than two inputs."""
        rows, copies = self._count, self._copies
        if rows < 2 * copies:
            return math.nan
        squares = max(self._squares - float((self._sum**2).sum()) / rows, 0.0)  # type: ignore[union-attr]
        return self._unit * math.sqrt(squares / (rows - copies))
