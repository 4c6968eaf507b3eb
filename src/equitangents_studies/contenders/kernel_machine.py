"""Infinitely wide networks as contenders: kernel regression on the first training images."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents import nn
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents_studies.contenders.problem import Problem

_RIDGE = 1e-3
_ROWS = 1000


class KernelMachine:
    """The mean of infinitely many, infinitely wide networks that were trained to the end with a little weight decay."""

    def __init__(self, net: nn.Sequential, problem: Problem, *, augmented: bool) -> None:
        self.problem = problem
        augmentation = problem.action if augmented else None
        self._model = InfiniteEnsembleClassifier(net, augmentation=augmentation, time=float("inf"), ridge=_RIDGE)

    @property
    def parameters(self) -> None:
        """Infinitely many; what is kept are coefficients of training images."""
        return None

    def fit(self, x: np.ndarray, y: np.ndarray) -> KernelMachine:
        """Solve for the first `kernel_images` images."""
        count = self.problem.kernel_images
        self._model.fit(x[:count].astype(np.float32), y[:count])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean outputs, (N, classes)."""
        rows: list[Any] = [
            self._model.ensemble_.predict(x[i : i + _ROWS].astype(np.float32)) for i in range(0, len(x), _ROWS)
        ]
        outputs = np.concatenate(rows)
        full = np.full((len(x), self.problem.classes), outputs.min() - 1.0)
        full[:, self._model.classes_] = outputs
        return full
