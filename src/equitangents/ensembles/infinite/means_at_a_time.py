"""Means at one time from coefficients: μ_t(x) = Θ(x, X) α, α = φ_t(Θ) Y, without the eigenvectors.

N·outputs numbers in place of N²; what a prediction costs beside the kernel falls from N² to N·outputs operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.infinite.rows import blocks
from equitangents.ensembles.infinite.trained_kernel import Field
from equitangents.ensembles.standardisation import Standardisation
from equitangents.kernels import KernelFunction
from equitangents.kernels.random_features import FeatureMap

_BLOCK_ENTRIES = 2**24  # of a block of test rows against the training data, 128 MB in float64


@dataclass(frozen=True)
class MeansAtATime:
    """μ_t at one time t: the kernel, the training inputs X, and the coefficients α (N, outputs).

    Of a kernel of features the coefficients are the features' weights (m, outputs), and one input stands for all.
    X are as trained on, and inputs of questions are made so by `standardisation`, if there is one.
    """

    kernel: KernelFunction
    field: Field
    inputs: Any
    coefficients: np.ndarray
    standardisation: Standardisation | None = None

    def __call__(self, x: Any) -> np.ndarray:
        """The means at x (M, …): (M, outputs), of fields (M·P, outputs), position by position."""
        if self.standardisation is not None:
            x = self.standardisation(x)
        if isinstance(self.inputs, FieldPoints):
            x = FieldPoints.of(np.asarray(x), self.inputs.count)
        step = max(1, _BLOCK_ENTRIES // len(self.inputs))
        return np.concatenate([self._block(rows) for rows in blocks(x, step)])

    def first(self) -> np.ndarray:
        """The mean at the first training input, (1, outputs)."""
        return self._block(self.inputs[:1])

    def _block(self, rows: Any) -> np.ndarray:
        if isinstance(self.kernel, FieldKernel):
            return self.kernel.applied(rows, self.inputs, self.field, [self.coefficients])[0]
        if isinstance(self.kernel, FeatureMap):
            return np.asarray(self.kernel.transform(rows, self.field), np.float64) @ self.coefficients
        cross = getattr(self.kernel.kernel(rows, self.inputs), self.field)
        return np.asarray(cross, np.float64) @ self.coefficients
