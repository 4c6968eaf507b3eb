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

    unit: Literal["norm", "spread", "absolute", "classes", "share", "probability"]
    """What violations are divided by: "norm": ‖f(x)‖; "spread": the root mean square distance of f(x) from its mean
    over the inputs and their moved copies; "probability": √2, of outputs that are probabilities; "absolute":
    output_scale, or 1; "classes": outputs are class numbers, and the error is the share of them that changes; "share":
    the error is one by itself, of pixels or boxes, as `compared` of the outputs says."""
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
    rounding: float = 0.0
    """The part of the floor that is not interpolation: rounding, and the noise of a model that is random."""


@dataclass(frozen=True)
class Counterexample:
    """One moved input whose error is above its own floor, measured for it and seen again each time."""

    output: str
    label: str
    """The element."""
    index: int
    """Row of the sample."""
    error: float
    """In the headline's unit."""
    floor: float
    """The floor of this input under this element, in the unit of `error`."""
    inputs: int
    """How many inputs have an error as far above what floors explain, under some element."""


@dataclass(frozen=True)
class Doubt:
    """Why a verdict is open, and what would decide it."""

    cause: Literal["floor", "spread", "inputs", "vanishing", "noise", "interval", "interrupted"]
    """"floor": rounding or interpolation hides too much; "spread": outputs differ between inputs by no more than
    rounding; "inputs": the group moves none of them; "vanishing": outputs are rounding; "noise": the model is random;
    "interval": it holds the floor or the tolerance."""
    said: str
    """One clause for what hides the answer, and one for what would give it."""


@dataclass(frozen=True)
class UndefinedPose:
    """An element under which the model gave NaN or infinite values."""

    label: str
    inputs: int
    """For how many inputs."""
    index: int
    """Row of the first of them in the sample."""


@dataclass(frozen=True)
class FloatFloor:
    """What rounding alone does to the outputs, relative to their norm."""

    value: float
    method: Literal["float64", "perturbation", "none"]
    """"float64": against the model in double precision; "perturbation": inputs changed by one rounding."""
