"""Errors with their intervals, and the one that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval, over inputs and, where elements were sampled, over elements.

    Both ends are null (NaN) where there is no interval: below 5 inputs or sampled elements, or if all values are equal.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """How a relative error is distributed over inputs and elements."""

    estimate: Estimate
    q05: float
    q25: float
    median: float
    q75: float
    q95: float
    worst: float


@dataclass(frozen=True)
class Headline:
    """The error that the sentence, the verdict and `--fail-above` use."""

    unit: Literal["norm", "spread", "absolute", "classes", "share"]
    """What violations are divided by: "norm": ‖f(x)‖; "spread": the root mean square distance of f(x) from its mean
    over the inputs; "absolute": output_scale, or 1; "classes": outputs are class numbers, and the error is the share of
    them that changes; "share": the error is one by itself, of pixels or boxes, as `compared` of the outputs says."""
    reason: str
    """Why this unit."""
    error: Spread
    """Over all inputs and elements, the identity left out; the largest over the outputs."""
    floor: float
    """Mean over elements of their floors, in the same unit."""
    bound: float
    """Upper end of the interval of the mean error over inputs, of the element where it is largest; where there is no
    interval, the largest error."""
    tolerance: float | None = None
    """The error that was called acceptable; null: none was."""


@dataclass(frozen=True)
class FloatFloor:
    """What rounding alone does to the outputs, relative to their norm."""

    value: float
    method: Literal["float64", "perturbation", "none"]
    """"float64": against the model in double precision; "perturbation": inputs changed by one rounding."""
