"""A contender averaged over the orbit of every input: f̄(x) = (1/|G|) Σ_g f(ρ(g)x)."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.actions import Action


class Averaged:
    """Invariant exactly where ρ is exact; where it resamples, f̄(ρ(h)x) sees images that were resampled twice."""

    def __init__(self, contender: Any, action: Action) -> None:
        self.contender, self.action = contender, action

    @property
    def parameters(self) -> int:
        """Those of the contender."""
        return int(self.contender.parameters)

    @property
    def multiplications(self) -> int:
        """|G| predictions."""
        return int(self.action.group.order * self.contender.multiplications)

    def fit(self, x: Any, y: Any) -> Averaged:
        """Train the contender."""
        self.contender.fit(x, y)
        return self

    def predict(self, x: Any) -> np.ndarray:
        """Mean scores over the orbit, (N, classes)."""
        order = self.action.group.order
        total = np.asarray(self.contender.predict(self.action(0, x)), dtype=np.float64)
        for g in range(1, order):
            total = total + self.contender.predict(self.action(g, x))
        return total / order
