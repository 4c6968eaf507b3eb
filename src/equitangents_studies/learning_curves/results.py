"""What is measured of learning curves, and what follows from it at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from equitangents.statistics import Estimate, no_interval, t_interval
from equitangents_studies.systems import PowerLaw, fit_power_law

DRAWN = (0.2, 0.5, 1000.0, 0.03)  # exponents, cusp and noise of the synthetic power laws that are recovered
DRAWN_SIZES = 12


@dataclass(frozen=True, eq=False)
class Results:
    """`classification` and `squared` (sizes, repetitions) and `predicted` (sizes,) by (model, group), at
    `sizes[model]`; `networks` classification errors by (model, group). `measured` (sizes, repetitions) by set, and the
    squared errors that the spectrum (`omniscient`) and all inputs (`inputs`) predict (sizes,). `recovered` (draws, 3):
    whether both exponents and the cusp lie in their intervals. `whole` by (model, "" or "flips", "ntk" or "nngp",
    "validation" or "test"): whether each image is classified rightly after the largest training set.
    """

    source: str
    sizes: dict[str, np.ndarray]
    classification: dict[tuple[str, str], np.ndarray]
    squared: dict[tuple[str, str], np.ndarray]
    predicted: dict[tuple[str, str], np.ndarray]
    networks: dict[tuple[str, str], np.ndarray]
    measured: dict[str, np.ndarray]
    omniscient: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    recovered: np.ndarray
    whole: dict[tuple[str, str, str, str], np.ndarray] = field(default_factory=dict)

    @cached_property
    def laws(self) -> dict[tuple[str, str], PowerLaw]:
        """Power laws of classification errors, two segments each; of squared ones where no error is left."""
        found = {}
        for key, errors in self.classification.items():
            fitted = errors if (errors.mean(axis=1) > 0).all() else self.squared[key]
            found[key] = fit_power_law(self.sizes[key[0]], fitted, 2)
        return found

    def half_growths(self) -> dict[tuple[str, str], np.ndarray]:
        """By how much exponents over the upper half of sizes exceed those over the lower half, (repetitions,)."""
        found = {}
        for key, errors in self.classification.items():
            n = np.log(self.sizes[key[0]])
            middle = len(n) // 2
            slope = lambda part, errors=errors, n=n: -np.polyfit(n[part], np.log(np.maximum(errors[part], 1e-9)), 1)[0]
            found[key] = slope(slice(middle, None)) - slope(slice(0, middle + 1))
        return found

    def exponent(self, model: str, group: str) -> float:
        """The exponent of one power law through all mean errors."""
        mean = np.maximum(self.classification[model, group].mean(axis=1), 1e-9)
        return float(-np.polyfit(np.log(self.sizes[model]), np.log(mean), 1)[0])

    def off_one_law(self, model: str, group: str, first: int = 80) -> Estimate:
        """How far errors are from one power law through their means, in percent, from `first` images on.

        At the size where the mean is furthest off; the interval is over repetitions.
        """
        errors = self.classification[model, group]
        some = (self.sizes[model] >= first) & (errors.mean(axis=1) > 0)
        if some.sum() < 3:
            return no_interval(np.nan)
        x, errors = np.log(self.sizes[model][some]), errors[some]
        law = np.exp(np.polyval(np.polyfit(x, np.log(errors.mean(axis=1)), 1), x))
        off = 100 * (errors / law[:, None] - 1)
        return t_interval(off[np.argmax(np.abs(off.mean(axis=1)))])

    def accuracy(self, model: str, group: str) -> np.ndarray:
        """The accuracy of every repetition with the largest training set, in per cent."""
        return np.round(100 * (1 - self.classification[model, group][-1]), 9)


def off(predicted: np.ndarray, measured: np.ndarray, level: float) -> list[Estimate]:
    """By how many per cent predictions are off the mean over repetitions, at each size."""
    found = []
    for value, row in zip(predicted, measured, strict=True):
        e = t_interval(row, level)
        high = 100 * (value / e.low - 1) if e.low > 0 else np.inf
        found.append(Estimate(100 * (value / e.value - 1), 100 * (value / e.high - 1), high, level))
    return found
