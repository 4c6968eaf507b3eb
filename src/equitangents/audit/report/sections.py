"""Records of an audit: each class is one object of the report's JSON. Units are those of `numbers.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents._types import Element
from equitangents.audit.report.numbers import UNITS, Distribution, MeanEstimate, Standing, Unit, standing

Verdict = Literal["equivariant", "equivariant within tolerance", "equivariant on its data", "broken", "undecided"]
HOLDING: tuple[Verdict, ...] = ("equivariant", "equivariant within tolerance")
"""Verdicts of models without a violation."""

Reason = Literal[
    "at noise floor", "within the tolerance", "fails off the data",
    "above noise floor", "above the tolerance", "some elements", "single input", "not finite",
    "rounding", "interpolation", "spread", "constant", "unmoved inputs", "vanishing", "noise", "interval",
]  # fmt: skip
REASONS: dict[Reason, str] = {
    "at noise floor": "every element at its noise floor",
    "within the tolerance": "every element within the tolerance",
    "fails off the data": "holds on the data, fails on other inputs",
    "above noise floor": "mean error above twice its noise floor",
    "above the tolerance": "mean error above the tolerance under some element",
    "some elements": "some elements above their noise floors, which hide the others",
    "single input": "one input above its own noise floor, measured again",
    "not finite": "NaN or infinite outputs for moved inputs, finite before",
    "rounding": "rounding hides violations up to twice the noise floor",
    "interpolation": "interpolation hides violations up to twice the noise floor",
    "spread": "outputs differ between inputs by no more than rounding",
    "constant": "outputs are the same for all inputs, moved or not",
    "unmoved inputs": "no element moves any of these inputs",
    "vanishing": "all outputs vanish up to rounding",
    "noise": "two evaluations of one input differ",
    "interval": "the interval holds twice the noise floor, or the tolerance",
}
"""The reason of a verdict: the code in reports and JSON, and its meaning."""
_FINER = "the model in float64, or outputs centred about their mean"
DECIDES: dict[Reason, str] = {
    "rounding": f"{_FINER}, or a larger tolerance",
    "interpolation": "elements that move pixels exactly, larger and smoother inputs, or a larger tolerance",
    "spread": _FINER,
    "constant": f"inputs on which outputs differ, or {_FINER}",
    "unmoved inputs": "inputs that the group moves",
    "vanishing": "inputs on which outputs do not vanish, or output_scale",
    "noise": "the model without its noise (dropout off, a fixed seed), or the mean of many calls",
    "interval": "more inputs",
}
"""What would decide an undecided verdict."""


@dataclass(frozen=True)
class Headline:
    """The error that the first line, the verdict and `--fail-above` use."""

    unit: Unit
    """The divisor of violations: "norm": ‖f(x)‖; "spread": the standard deviation of f(x) over the inputs and their
    moved copies; "probability": √2, for outputs that are probabilities; "absolute": output_scale, or 1; "classes": 1,
    for class numbers, whose error is the share that changes; "share": 1, for shares of pixels or boxes (`compared`)."""
    error: Distribution
    """Over all inputs and elements, the identity left out; the largest over the outputs."""
    floor: float
    """Mean over elements of their noise floors, in the same unit."""
    bound: float
    """Upper end of the interval of the mean error over inputs, largest over elements; without an interval, the largest
    error."""
    asked: bool = False
    """Whether the user chose the unit."""
    tolerance: float | None = None
    """The error that the user allows; null: none."""
    rounding: float = 0.0
    """The part of the noise floor that is not interpolation: rounding, and the noise of a random model."""
    steady: MeanEstimate | None = None
    """The error without rounding, a root mean square over the inputs, largest over elements; null: not needed."""
    steady_unit: Unit | None = None
    """The unit of `steady`: "spread", or "norm" for outputs that do not differ between inputs."""

    @property
    def hiding(self) -> Reason:
        """The larger part of the noise floor."""
        return "interpolation" if self.rounding < self.floor / 2 else "rounding"

    def standing(self, limit: float) -> tuple[Standing, MeanEstimate]:
        """(standing of the mean error to a limit, the estimate that decides: without rounding if it is open)."""
        error = self.error.bounded
        if math.isnan(self.error.estimate.high):  # few inputs, or few elements
            error = replace(error, high=self.bound)
        stands = standing(error, self.floor, limit)
        if stands != "open" or self.steady is None or self.steady_unit not in (None, self.unit):
            return stands, self.error.estimate
        return standing(self.steady, self.floor - self.rounding, limit), self.steady


@dataclass(frozen=True)
class Counterexample:
    """One moved input whose error is above its own noise floor in repeated evaluations."""

    label: str
    """The element."""
    index: int
    """Row of the sample."""
    error: float
    """In the headline's unit."""
    floor: float
    """The noise floor of this input under this element, in the unit of `error`."""


@dataclass(frozen=True)
class UndefinedPose:
    """An element under which the model gave NaN or infinite values."""

    label: str
    inputs: int
    """Number of inputs."""
    index: int
    """Row of the first of them in the sample."""


@dataclass(frozen=True)
class FloatFloor:
    """Change of the outputs by rounding, relative to their norm."""

    value: float
    method: Literal["float64", "perturbation", "copies", "none"]
    """"float64": against the model in double precision; "perturbation": inputs changed by one rounding; "copies":
    differences between violations of copies of the inputs, each changed by 1/64."""


SetKind = Literal["data", "noise", "shuffled", "other"]
RuleUnit = Literal["norm", "spread", "classes"]


@dataclass(frozen=True)
class RuleResult:
    """The rule by which one output moves, fitted on half of the inputs and tested on the other half."""

    output: str
    found: bool
    """Whether its error is below a quarter of that of an invariant output under every generator, by simultaneous
    tests."""
    kind: Literal["permutation", "kind", "none"]
    """"permutation": of classes or channels; "kind": vectors, images, …; "none": no rule was accepted."""
    rule: str
    """The rule as text; for outputs without a rule the best candidate."""
    by_hand: str | None
    """The same rule as output_action; null: there is no such value."""
    error: MeanEstimate | None
    """Mean error with this rule, on the inputs that did not fit it."""
    invariant: MeanEstimate | None
    """Mean error of the same inputs for an invariant output."""
    unit: RuleUnit
    """The unit of both."""
    agreement: MeanEstimate | None = None
    """The share of predictions that follow the rule, on the test inputs; null without classes."""


@dataclass(frozen=True)
class ElementResult:
    """Everything about one element of the group."""

    label: str
    parameter: Element
    """Replays the element: a number of the finite group, an angle in degrees, a matrix, a permutation."""
    angle: float | None
    """Degrees, if the element is a rotation of the plane; else null."""
    exact: bool
    """False: the inputs were resampled."""
    error: Distribution
    floor: float
    """The noise floor: resampling, rounding and noise."""
    at_floor: bool
    """Whether the error is explained by the noise floor."""
    same_prediction: float | None
    """Share of inputs whose predicted class stays; null if the output is not a vector of class scores."""
    judged: Distribution
    """The error in the headline's unit."""
    judged_floor: float
    """The noise floor in the headline's unit."""
    above: bool
    """Whether some output fails under it."""


@dataclass(frozen=True)
class OrbitSection:
    """Predictions along orbits {ρ(g)x}."""

    same_predictions: MeanEstimate | None
    """Share of the elements, the identity left out, that keep the predicted class; null without class scores."""
    answers: int | None
    """Number of different predicted classes; null without classes."""


@dataclass(frozen=True)
class RelativeSection:
    """The violation in other units than the output's own norm."""

    task: str | None
    """"root mean square error" or "error rate"; null without labels."""
    task_error: float | None
    transformed_task_error: float | None
    """The task's error on transformed inputs."""
    error_by_spread: Distribution | None
    """Violations over the standard deviation over inputs and moved copies, largest over outputs; null if there is
    none."""
    floor_by_spread: float | None
    """Mean over elements of their noise floors, in the same unit."""


@dataclass(frozen=True)
class SetResult:
    """The error on one set of inputs, on the data or off it."""

    name: str
    kind: SetKind
    inputs: int
    judged: MeanEstimate
    """The error in the headline's unit, with the standard deviation of this set."""
    judged_floor: float
    above: bool
    """Whether the interval of the error lies above twice its noise floor and the tolerance; false if the floor is too
    large to decide. A model with such a set off the data is not called equivariant."""


@dataclass(frozen=True)
class OrbitPoint:
    """One point of an orbit: the input, and the output of the model."""

    label: str
    inputs: dict[str, Any]
    """Arrays by input name, as nested lists; inputs that do not transform and large ones are left out."""
    prediction: list[float] | None
    """The first output, flattened; null if it is large."""
    error: float
    """In the headline's unit."""


@dataclass(frozen=True)
class AuditWitness:
    """An input and the element with the largest error, enough to reproduce it."""

    index: int
    """Row of the sample."""
    label: str
    parameter: Element
    error: float
    """In the headline's unit."""
    image_layout: Literal["channels_last", "channels_first"] | None
    """The layout of the first transformed input, if it is an image; else null."""
    orbit: list[OrbitPoint]
    """The identity first."""


@dataclass(frozen=True)
class InputContract:
    """One array that the model reads, and how the group acts on it."""

    name: str
    shape: list[int]
    """Shape of the sample, batch axis first."""
    dtype: str
    action: str
    """The action on it; "none": it does not transform."""
    exact: bool
    """False: the action resamples, and is one only approximately."""


@dataclass(frozen=True)
class Matching:
    """Matching of items of f(ρ(g)x) with those of ρ(g)f(x); means over elements and inputs."""

    iou: MeanEstimate | None
    """Mean IoU of the matched boxes; null for items without IoU, or without matches."""
    missed: MeanEstimate | None
    """Share of the items of ρ(g)f(x) without a partner; null where there are none."""
    extra: MeanEstimate | None
    """Share of the items of f(ρ(g)x) without a partner; null where there are none."""


@dataclass(frozen=True)
class OutputContract:
    """One array that the model returns, how it should transform, and its error."""

    name: str
    shape: list[int]
    """Shape for one input."""
    action: str
    """How it should transform; "invariant": not at all."""
    error: MeanEstimate
    judged: MeanEstimate
    """The error in the headline's unit, or in the output's own, `unit`."""
    floor: float
    """Mean over elements of its noise floors, in the same unit."""
    rms: float
    """Root mean square of its norm over the inputs."""
    scale: float | None
    """Its output_scale."""
    vanishes: bool
    """Whether it is no larger than its rounding for all inputs, moved or not."""
    fails_under: list[str]
    """Labels of the elements under which it fails: the interval lies above twice the noise floor and the tolerance."""
    compared: str | None
    """The measure of the error, for masks of classes and sets; null: the norm of a difference."""
    matching: Matching | None
    """Matched, missed and extra items, if the output is a set."""
    unit: Unit
    """The unit of `judged`: that of the headline, except for class numbers, masks, sets, outputs with an output_scale,
    and outputs that do not differ between inputs."""


@dataclass(frozen=True)
class ContractSection:
    """The group, and its actions on inputs and outputs."""

    group: str
    order: int | None
    """Number of elements; null: infinitely many."""
    complete: bool
    """True: every element was tested; false: elements were drawn at random (Haar measure)."""
    elements: int
    """Number of elements tested, without the identity."""
    layout: Literal["channels_last", "channels_first"] | None
    """Channel axis of images; null: no input is an image."""
    inputs: list[InputContract]
    outputs: list[OutputContract]
    law: bool
    """False: transforms, which form no group; their strengths replace elements."""

    @property
    def noun(self) -> str:
        """What is tested: "element" or "strength"."""
        return "element" if self.law else "strength"


@dataclass(frozen=True)
class ModelSection:
    """The model, and whether it is deterministic."""

    name: str
    kind: str
    """"callable", "torch", "onnx", "scikit-learn", "network", "deep ensemble", "infinite ensemble", "members"."""
    dtype: str
    """Floating-point type of the outputs."""
    device: str
    deterministic: bool
    """False: the same batch gave different outputs."""
    batch_independent: bool
    """False: an input's output depends on what else is in its batch."""
    noise: float
    """Relative difference of two evaluations of the same inputs; 0 for deterministic models."""


_ALIKE = 1e-5
"""Members whose part of the violation is below this share differ only by rounding."""


LayerReason = Literal["none", "random", "outside", "layer", "mended"]
LAYER_REASONS: dict[LayerReason, str] = {
    "none": "no layer breaks the symmetry",
    "random": "the layer is random",
    "outside": "an operation before the layer, outside any",
    "layer": "features transform with the input up to this layer",
    "mended": "later layers mend what an earlier one breaks",
}
"""How the symmetry breaks: the code in reports and JSON, and its meaning."""


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


@dataclass(frozen=True)
class LayerSection:
    """Where the violation starts."""

    layers: list[LayerResult]
    guilty: str | None
    """Name of the layer where it starts; null if no layer breaks the symmetry."""
    reason: LayerReason


@dataclass(frozen=True)
class EnsembleSize:
    """The squared violation of the mean of some members, measured and by the fitted law."""

    members: int
    squared_error: MeanEstimate
    fitted: float


@dataclass(frozen=True)
class EnsembleSection:
    """The law E‖violation of the mean of M members‖² = limit² + finite²/M, relative to the mean's norm squared."""

    members: int
    sizes: list[EnsembleSize]
    finite: float
    """The part that falls with more members: the coefficient of 1/√M."""
    limit: MeanEstimate
    """The part that remains: the error at M → ∞."""

    @property
    def alike(self) -> bool:
        """Whether all members have the same violation, up to rounding."""
        return self.finite <= _ALIKE * math.sqrt(max(self.sizes[0].squared_error.mean, 0.0))

    @property
    def errors(self) -> tuple[MeanEstimate, MeanEstimate, MeanEstimate]:
        """Root mean square errors of one member, of the mean of all, and of infinitely many: one quantity."""
        one, now = self.sizes[0].squared_error.rooted, self.sizes[-1].squared_error.rooted
        return one, now, now if self.alike else self.limit


TASK = "the task's error"
"""The part that is missing if the labels do not fit."""
RemedyName = Literal["orbit averaging", "training with augmentation"]
AVERAGING: RemedyName = "orbit averaging"
AUGMENTATION: RemedyName = "training with augmentation"
How = Literal["exact", "measured", "sampled", "refitted", "no mean", "no refit", "no training data", "labels move"]
HOW: dict[How, str] = {
    "exact": "all elements, exact action",
    "measured": "averaged model, audited on some inputs",
    "sampled": "difference of two means over random elements",
    "refitted": "a copy fitted on moved training data",
    "no mean": "class numbers, masks and sets have no mean; return class scores",
    "no refit": "the model cannot be refitted here",
    "no training data": "no training data; give train=(x, y)",
    "labels move": "labels would move with the inputs",
}


@dataclass(frozen=True)
class Remedy:
    """Effect and cost of one remedy."""

    name: RemedyName
    how: How
    """How `after` was obtained, or why it is not known."""
    cost: int
    """In `cost_unit`."""
    cost_unit: Literal["evaluations per input", "trainings"]
    after: MeanEstimate | None
    """The mean error with the remedy, in the headline's unit; null: not known."""
    task_before: float | None
    """The task's error on the inputs as given; null without labels."""
    task_after: float | None

    @property
    def worse(self) -> bool:
        """Whether the task's error rises."""
        known = self.task_before is not None and self.task_after is not None
        return known and self.task_after > self.task_before * (1 + 1e-9)  # type: ignore[operator]


@dataclass(frozen=True)
class MissingSection:
    """A part of the audit that was left out, and why."""

    section: str
    reason: str


@dataclass(frozen=True)
class Timing:
    """Computing time."""

    total_seconds: float
    model_seconds: float
    """Inside the model."""
    evaluations: int
    """Inputs evaluated by the model, its members, layers and changed copies, in all parts, padding included."""
    batches: int
    """Calls of the model."""


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """The results of an audit."""

    format: Literal["equitangents.audit/3"]
    verdict: Verdict
    """"equivariant": every element at its noise floor; "equivariant within tolerance": above it, but for no element
    above the tolerance; "equivariant on its data": one of these on the data, and above both on another set; "broken":
    an element (or, without a tolerance, a single input) above its noise floor and the tolerance, or NaN for a moved
    input; "undecided": `reason` says why."""
    reason: Reason
    """Why the verdict was reached."""
    contract: ContractSection
    model: ModelSection
    error: Distribution
    """Relative to ‖f(x)‖, over all inputs and elements without the identity."""
    floor: float
    """Mean over elements of their noise floors, relative to ‖f(x)‖."""
    elements: list[ElementResult]
    float_floor: FloatFloor
    orbit: OrbitSection
    relative: RelativeSection
    sets: list[SetResult]
    """The data first."""
    layers: LayerSection | None
    ensemble: EnsembleSection | None
    remedies: list[Remedy]
    witness: AuditWitness | None
    """The worst input."""
    missing: list[MissingSection]
    settings: dict[str, Any]
    """Settings of the intervals, the batch size, and the number of inputs."""
    versions: dict[str, str]
    timing: Timing
    citations: list[str]
    """What to cite for the methods that this audit used."""
    headline: Headline
    """The error that the first line and the verdict use, and its unit."""
    errors: Float[np.ndarray, "elements inputs"] = field(metadata={"json": False})
    rules: list[RuleResult] = field(default_factory=list)
    """Fitted rules of outputs (output_action="find")."""
    averaged: Callable[..., Any] | None = field(default=None, metadata={"json": False})
    """A function that makes the averaged model."""
    counterexample: Counterexample | None = None
    """A single input far above its noise floor, if no mean is."""
    undefined: list[UndefinedPose] = field(default_factory=list)
    """Elements under which the model gives NaN or infinite values; errors are those of the other inputs."""
    unmoved: int = 0
    """Inputs that no element moves, left out unless that is all of them."""

    @property
    def unscaled(self) -> bool:
        """Whether all outputs vanish, so that errors are absolute."""
        return self.headline.unit == "absolute" and all(o.scale is None for o in self.contract.outputs)

    @property
    def unit(self) -> str:
        """The unit of the headline's error, "of ‖f(x)‖"."""
        return "in the outputs' own unit" if self.unscaled else UNITS[self.headline.unit]

    def unit_of(self, output: OutputContract) -> str:
        """The unit of one output's error, which may be its own."""
        if output.unit == "absolute" and output.scale is None:
            return self.unit
        return UNITS[output.unit]
