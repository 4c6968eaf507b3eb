"""scikit-learn's `score`, also of predictions that are fields: every position of every sample is a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score

from equitangents._types import Numbers
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.fields.turning import turning_outputs
from equitangents.ensembles.inputs import check_fields
from equitangents.ensembles.labels import check_label_fields


class FieldRegressorMixin(RegressorMixin):
    """`score` of regressions whose predictions may be fields."""

    def score(self, X: Numbers, y: Numbers, sample_weight: Numbers | None = None) -> float:
        """R² of the mean prediction, averaged over outputs; of fields each position of each sample is a row."""
        grid = positions_of(self)
        if not grid:
            return float(super().score(X, y, sample_weight))
        true, _ = Positions(grid).checked(check_fields(y), len(X), copies=False)  # type: ignore[arg-type]
        rows = math.prod(grid) * len(true)
        predicted = np.asarray(self.predict(X)).reshape(rows, -1)
        return float(r2_score(true.reshape(rows, -1), predicted, sample_weight=each_row(sample_weight, grid)))


class FieldClassifierMixin(ClassifierMixin):
    """`score` of classifiers whose predictions may be fields of labels."""

    def score(self, X: Numbers, y: Numbers, sample_weight: Numbers | None = None) -> float:
        """The share of labels that are predicted; of fields each position of each sample counts."""
        grid = positions_of(self)
        if not grid:
            return float(super().score(X, y, sample_weight))
        labels = check_label_fields(y, len(X), Positions(grid))  # type: ignore[arg-type]
        right = self.predict(X) == labels
        return float(np.average(right.ravel(), weights=each_row(sample_weight, grid)))


def positions_of(estimator: Any) -> tuple[int, ...]:
    """The grid on which a fitted estimator's outputs are, () for others and for outputs that turn."""
    net = getattr(getattr(estimator, "ensemble", estimator), "net", None)
    return () if turning_outputs(net) is not None else tuple(getattr(estimator, "positions_", ()))


def each_row(sample_weight: Any, grid: tuple[int, ...]) -> np.ndarray | None:
    """Weights (N,) of samples as those of all their positions."""
    return None if sample_weight is None else np.repeat(np.asarray(sample_weight, np.float64), math.prod(grid))
