"""A contender averaged over the orbit of every input: f̄(x) = (1/|G|) Σ_g f(ρ(g)x)."""

from __future__ import annotations

import numpy as np

from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.protocol import CountedContender


class Averaged:
    """Invariant exactly where ρ is exact; where it resamples, f̄(ρ(h)x) sees images that were resampled twice.

    Of a contender that gives labels, not scores, it is the vote.
    """

    def __init__(self, contender: CountedContender, problem: Problem) -> None:
        self.contender, self.action, self.classes = contender, problem.action, problem.classes

    @property
    def parameters(self) -> int:
        """Parameters of the contender that is averaged."""
        return int(self.contender.parameters)

    @property
    def multiplications(self) -> int:
        """Multiplications of one prediction for each of the |G| elements."""
        return int(self.action.group.order * self.contender.multiplications)

    def fit(self, x: np.ndarray, y: np.ndarray) -> Averaged:
        """Train the contender whose predictions are averaged."""
        self.contender.fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean scores over the orbit, (N, classes)."""
        order = self.action.group.order
        total = np.zeros((len(x), self.classes))
        for g in range(order):
            output = np.asarray(self.contender.predict(self.action(g, x)))
            total += np.eye(self.classes)[output.astype(int)] if output.ndim == 1 else output
        return total / order
