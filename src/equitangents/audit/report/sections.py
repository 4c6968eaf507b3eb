"""What an audit finds, as small records: each class is one object of the report's JSON.

Errors are relative: ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖. Those called `judged` are in the unit of the headline, which
may be the spread between inputs instead; the verdict follows from these. A floor is the error that a perfectly
equivariant function would show all the same, because arrays are resampled, numbers rounded, or the function is random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


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

    unit: Literal["norm", "spread", "absolute", "classes"]
    """What violations are divided by: "norm": ‖f(x)‖; "spread": the root mean square distance of f(x) from its mean
    over the inputs; "absolute": output_scale, or 1; "classes": outputs are class numbers, and the error is the share of
    them that changes."""
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
class InputContract:
    """One array that the model reads, and how the group acts on it."""

    name: str
    shape: list[int]
    """Shape of the sample, batch axis first."""
    dtype: str
    action: str
    """What the group does to it; "none": it does not transform."""
    exact: bool
    """False: the action resamples, and is one only approximately."""


@dataclass(frozen=True)
class OutputContract:
    """One array that the model returns, how it should transform, and the error of that array alone."""

    name: str
    shape: list[int]
    """Shape for one input."""
    action: str
    """How it should transform; "invariant": not at all."""
    error: Estimate
    judged: Estimate | None = None
    """The same error in the headline's unit."""
    floor: float | None = None
    """Mean over elements of its floors, in the headline's unit."""
    rms: float | None = None
    """Root mean square of its norm over the inputs."""
    spread: float | None = None
    """Root mean square distance of this output from its mean over the inputs; null: of a single input, of class
    numbers, and where that is no more than rounding."""
    scale: float | None = None
    """The output_scale that was given for it."""
    vanishes: bool = False
    """Whether it is no larger than its rounding for all inputs, moved or not."""
    fails_under: list[str] = field(default_factory=list)
    """Labels of the elements under which it fails: its interval lies above twice the floor, and above the tolerance."""


@dataclass(frozen=True)
class ContractSection:
    """What was tested: the group, and its actions on inputs and outputs."""

    group: str
    order: int | None
    """Number of elements; null: infinitely many."""
    complete: bool
    """True: every element was tried; false: elements were drawn at random (Haar measure)."""
    elements: int
    """How many elements were tried, the identity left out."""
    layout: Literal["channels_last", "channels_first"] | None
    """Where images keep their channels; null: no input is an image."""
    inputs: list[InputContract]
    outputs: list[OutputContract]


@dataclass(frozen=True)
class ModelSection:
    """What was audited, and whether it answers alike each time."""

    name: str
    kind: str
    """"callable", "torch", "onnx", "scikit-learn", "network", "deep ensemble", "infinite ensemble", "members"."""
    dtype: str
    """Floating-point type of the outputs."""
    device: str
    deterministic: bool
    """False: the same batch gave two different answers."""
    batch_independent: bool
    """False: an input's output depends on what else is in its batch."""
    noise: float
    """Relative difference of two evaluations of the same inputs; 0 for deterministic models."""


@dataclass(frozen=True)
class ElementResult:
    """Everything about one element of the group."""

    label: str
    parameter: Any
    """Replays the element: a number of the finite group, an angle in degrees, a matrix, a permutation."""
    angle: float | None
    """Degrees of the turn, if the element is a rotation; null if not."""
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
class FloatFloor:
    """What rounding alone does to the outputs, relative to their norm."""

    value: float
    method: Literal["float64", "perturbation", "none"]
    """"float64": against the model in double precision; "perturbation": inputs changed by one rounding."""


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
    """Violations over the spread between inputs, √(Σ ‖f(x_i) − f̄‖²/(n − 1)), the largest over the outputs; null where
    there is no spread."""
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
class IrrepShare:
    """How much of the violation's power one irreducible representation carries."""

    name: str
    dimension: int
    share: Estimate
    """Share of the power of g ↦ ρ(g)⁻¹f(ρ(g)x) outside the trivial irrep."""


@dataclass(frozen=True)
class IrrepSection:
    """Decomposition of the orbit signal g ↦ ρ(g)⁻¹f(ρ(g)x), which is constant for an equivariant f."""

    method: str
    violation_share: float
    """Power outside the trivial irrep over the total power."""
    shares: list[IrrepShare]


@dataclass(frozen=True)
class LayerResult:
    """The error after one layer, in order of execution."""

    name: str
    kind: str
    shape: list[int]
    """Shape of its output for one input."""
    error: float
    """Smallest error that any orthogonal action on its output could have."""
    floor: float
    broken: bool
    noise: float
    """Relative difference of two evaluations; above 0 in layers that are random."""
    growth: float | None = None
    """How much larger the error is than that of the layer's input, or of the layer before where that is not seen."""


@dataclass(frozen=True)
class SweepResult:
    """The error after one change: another input size, or one layer with another padding or stride."""

    change: str
    layer: str | None
    """The layer changed; null: the input was."""
    first_broken: str | None
    """Where the violation starts after the change; null: nowhere."""
    error: float | None
    """Error of the model's output; null: the changed model does not run."""
    note: str


@dataclass(frozen=True)
class LayerSection:
    """Where the violation starts."""

    layers: list[LayerResult]
    guilty: str | None
    """Name of the layer where it starts; null if no layer breaks the symmetry."""
    reason: str
    sweep: list[SweepResult]
    steepest: str | None = None
    """Name of the layer where the error grows most; null if no layer breaks the symmetry."""
    expected: bool = False
    """True: the first layer with weights breaks the symmetry already, whatever its padding or stride, as expected of a
    network that is not built to be equivariant."""


@dataclass(frozen=True)
class EnsembleSize:
    """The squared violation of the mean of some members, measured and by the fitted law."""

    members: int
    squared_error: Estimate
    fitted: float
    theory: float | None
    """Infinitely wide networks; null where no theory was given."""


@dataclass(frozen=True)
class EnsembleSection:
    """The law E‖violation of the mean of M members‖² = limit² + finite²/M, relative to the mean's norm squared."""

    members: int
    member_error: Estimate
    """Mean over members of a member's own error, a mean of errors relative to each input's ‖f(x)‖."""
    mean_error: Estimate
    """Error of the mean of all members, in the same way; `sizes` and `limit` are root mean squares."""
    sizes: list[EnsembleSize]
    finite: float
    """What more members cure: the coefficient of 1/√M."""
    limit: Estimate
    """What more members will not cure: the error at M → ∞."""
    exponent: float | None
    """Fitted power of M of the error above its limit, −1/2 expected; null if there is nothing to fit."""
    theory_limit: float | None
    """The limit for infinitely wide networks; null where no theory was given."""
    by_spread: float | None = None
    """Root mean square of ‖f(x)‖ over the spread between inputs, which puts these errors in units of the spread; null
    where there is no spread."""


@dataclass(frozen=True)
class DataSection:
    """Whether the data have the symmetry: p(x) against p(ρ(g)x)."""

    test: Literal["kernel", "classifier"]
    statistic: float
    """Squared maximum mean discrepancy, or the accuracy of a classifier that tells both apart."""
    p_value: float
    inputs: int
    symmetric: bool | None
    """False: the data tell transformed inputs apart at 5 %; null: too few inputs to say."""
    label_agreement: float | None
    """Share of transformed inputs whose nearest neighbour in the data has their label; null without labels."""
    label_agreement_untransformed: float | None
    """The same without transforming, as the mark to compare with."""


@dataclass(frozen=True)
class Remedy:
    """What one remedy would bring."""

    name: str
    measured: bool
    """False: an extrapolation, or not known; `note` says which."""
    error_before: float | None
    """Relative to ‖f(x)‖, as `error_after`; of more members both are root mean squares."""
    error_after: float | None
    task_before: float | None
    task_after: float | None
    cost: str
    note: str
    quantity: str = ""
    """What `before` and `after` both are."""
    before: Estimate | None = None
    """The error now, in the headline's unit, with its interval."""
    after: Estimate | None = None
    """The same quantity with the remedy; null: not known."""


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
class Checkpoint:
    """The error at one point of training."""

    label: str
    step: float
    error: Estimate
    elements: list[float]
    """Mean error of each element, in the order of `elements`."""
    same_predictions: float | None
    judged: Estimate | None = None
    """The error in the headline's unit; a spread is that between this checkpoint's outputs."""
    judged_elements: list[float] = field(default_factory=list)
    """Mean error of each element in the headline's unit."""


@dataclass(frozen=True)
class Missing:
    """A part of the audit that was left out, and why."""

    section: str
    reason: str


@dataclass(frozen=True)
class Timing:
    """Where the time went."""

    total_seconds: float
    model_seconds: float
    """Inside the model."""
    evaluations: int
    """Inputs that the model, its members, layers, checkpoints and changed copies were given, in all parts of the audit;
    copies that fill up a batch count."""
    batches: int = 0
    """Calls in which they were given."""


@dataclass(frozen=True)
class Settings:
    """What the audit was asked to do."""

    confidence: float
    resamples: int
    seed: int
    batch_size: int
    inputs: int
    values: dict[str, Any] = field(default_factory=dict)
