"""The error by elements of the group, by strengths of changes and by sets of inputs, and inputs that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from equitangents.audit.report.sections.errors import Estimate, Spread


@dataclass(frozen=True)
class ElementResult:
    """Everything about one element of the group."""

    label: str
    parameter: Any
    """Replays the element: a number of the finite group, an angle in degrees, a matrix, a permutation."""
    angle: float | None
    """Degrees, if the element is a turn of the plane; null if not."""
    exact: bool
    """False: the inputs were resampled."""
    error: Spread
    worst_input: int
    """Row of the sample with the largest error."""
    round_trip_floor: float | None
    """Mean of ‖f(ρ(g⁻¹)ρ(g)x) − f(x)‖/‖f(x)‖; null for exact elements."""
    reference_floor: float | None
    """Mean of ‖f(ρ(g)x) − f(ρ′(g)x)‖/‖f(x)‖, ρ′ interpolating more accurately; null where there is none."""
    floor: float
    """The largest of the floors: resampling, rounding, noise."""
    at_floor: bool
    """Whether the error is no larger than what the floor explains."""
    same_prediction: float | None
    """Share of inputs whose predicted class stays; null if the output is not a vector of class scores."""
    divergence: float | None
    """Mean Jensen-Shannon divergence in bits between the predicted distributions; null without probabilities."""
    judged: Spread | None = None
    """The error in the headline's unit."""
    judged_floor: float | None = None
    """The floor in the headline's unit."""
    above: bool | None = None
    """Whether some output fails under it."""


@dataclass(frozen=True)
class OrbitSection:
    """What the model does along orbits {ρ(g)x}."""

    same_predictions: Estimate | None
    """Share of the elements, the identity left out, that keep the predicted class; null without class scores."""
    relative_std: Estimate
    """The identity included: ‖std over g of ρ(g)⁻¹f(ρ(g)x)‖ / ‖mean over g‖."""
    divergence: Estimate | None
    """Jensen-Shannon divergence in bits of predictions along the orbit; null without probabilities."""
    outputs: Literal["values", "logits", "probabilities"]
    """What the outputs were taken for."""


@dataclass(frozen=True)
class RelativeSection:
    """The violation in other units than the output's own norm."""

    rms_norm: float
    """Root mean square of ‖f(x)‖ over the sample."""
    rms_violation: float
    """Root mean square of ‖f(ρ(g)x) − ρ(g)f(x)‖ over the sample and elements."""
    task: str | None
    """"root mean square error" or "error rate"; null without labels."""
    task_error: float | None
    violation_over_task_error: float | None
    """Violation, or share of changed predictions, over the task's error."""
    transformed_task_error: float | None
    """The task's error on transformed inputs."""
    member_spread: float | None
    """Root mean square over inputs of the standard deviation between members."""
    violation_over_member_spread: float | None
    error_by_spread: Spread | None = None
    """Violations over the spread between inputs and moved copies, the largest over the outputs; null where there is
    none."""
    floor_by_spread: float | None = None
    """Mean over elements of their floors, in the same unit."""


@dataclass(frozen=True)
class SetResult:
    """The error on one set of inputs, on the data or off it."""

    name: str
    kind: Literal["data", "noise", "shuffled", "other"]
    inputs: int
    error: Estimate
    floor: float
    at_floor: bool
    same_predictions: Estimate | None
    relative_std: Estimate
    judged: Estimate | None = None
    """The error in the headline's unit; a spread is that between the inputs of this set."""
    judged_floor: float | None = None


@dataclass(frozen=True)
class LieResult:
    """Size of the Lie derivative at the identity along one generator, relative to ‖f(x)‖ per unit of it."""

    generator: str
    unit: str
    value: Estimate
    method: Literal["jvp", "differences"]
    step: float | None
    """Step of the differences, in units of the generator."""


@dataclass(frozen=True)
class OrbitPoint:
    """One point of an orbit: the input as the model saw it, and what it answered."""

    label: str
    parameter: Any
    angle: float | None
    inputs: dict[str, Any]
    """Arrays by input name, as nested lists; inputs that do not transform and large ones are left out."""
    prediction: list[float] | None
    """The first output, flattened; null if it is large."""
    error: float


@dataclass(frozen=True)
class Witness:
    """An input and the element with which its error is large, or typical; enough to replay it."""

    kind: Literal["worst", "typical"]
    index: int
    """Row of the sample."""
    label: str
    parameter: Any
    error: float
    image_layout: Literal["channels_last", "channels_first"] | None
    """Not null: the first transformed input is an image, its channels where this says."""
    orbit: list[OrbitPoint]
    """The identity first."""


@dataclass(frozen=True)
class StrengthResult:
    """The error at one strength."""

    strength: float
    error: Estimate
    """Mean over the inputs of ‖f(T_s x) − f(x)‖ in `unit`; its interval is over the inputs."""
    floor: float
    """What rounding and chance explain, in the same unit."""
    at_floor: bool
    above: bool
    """Whether the error lies above twice its floor and, if there is a tolerance, above that, by its interval."""
    same_predictions: Estimate | None
    """Share of the inputs whose predicted class stays; null without class scores."""


@dataclass(frozen=True)
class TransformResult:
    """One curve: the error over the strength of one transform."""

    name: str
    unit: str
    """What errors are relative to, as in `headline`."""
    still: float | None
    """The strength at which nothing changes, where it is known."""
    points: list[StrengthResult]
    """By rising strength."""
    said: str
    """The curve in one sentence."""
