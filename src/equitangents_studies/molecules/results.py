"""What was measured of molecules, and how the errors of two models compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, t_interval


@dataclass(frozen=True, eq=False)
class Results:
    """`errors` by model: absolute errors (splits, sizes, test molecules), eV. `ridges` by model: (splits, sizes).

    `widths` by model: the chosen one. `rotated` and `relabelled` by model: change of the largest fits' predictions
    (molecules, turns), eV. `resolution` and `kernel_error` are those of the invariant kernel's quadrature.
    """

    errors: dict[str, np.ndarray]
    ridges: dict[str, np.ndarray]
    widths: dict[str, float]
    rotated: dict[str, np.ndarray]
    relabelled: dict[str, np.ndarray]
    resolution: int
    kernel_error: float
    label: str

    @property
    def splits(self) -> int:
        """How many."""
        return len(self.errors["so3"])


def mean_errors(results: Results, name: str) -> np.ndarray:
    """Mean absolute errors (splits, sizes) in eV."""
    return results.errors[name].mean(axis=-1)


def error_ratio(results: Results, a: str, b: str, size: int, level: float = 0.95) -> Estimate:
    """Mean absolute error of one model over that of another: geometric mean over splits, paired, Student's interval."""
    return _ratio(_logs(results, a, b)[:, size], level)


def mean_ratio(results: Results, a: str, b: str) -> Estimate:
    """The same in the geometric mean over training sizes."""
    return _ratio(_logs(results, a, b).mean(axis=1), 0.95)


def _logs(results: Results, a: str, b: str) -> np.ndarray:
    """ln of one model's error over another's, (splits, sizes)."""
    return np.log(mean_errors(results, a) / mean_errors(results, b))


def _ratio(logs: np.ndarray, level: float) -> Estimate:
    e = t_interval(logs, level)
    value, low, high = (float(np.exp(x)) for x in (e.value, e.low, e.high))
    return Estimate(value, low, high, level)
