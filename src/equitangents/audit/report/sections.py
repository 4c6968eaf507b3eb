"""What an audit tests and finds, and how it went, as small records: each class is one object of the report's JSON.

The units of their numbers are those of `numbers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents._types import Element
from equitangents.audit.report.numbers import UNITS, MeanEstimate, Spread, Standing, Unit, standing

Verdict = Literal["equivariant", "equivariant within tolerance", "equivariant on its data", "broken", "undecided"]
HOLDING: tuple[Verdict, ...] = ("equivariant", "equivariant within tolerance")
"""The verdicts of models that are as they should be, as far as was looked."""

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
"""Why a verdict is what it is: the code that reports and JSON hold, and what it means."""
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
    """What violations are divided by: "norm": ‖f(x)‖; "spread": the root mean square distance of f(x) from its mean
    over the inputs and their moved copies; "probability": √2, of outputs that are probabilities; "absolute":
    output_scale, or 1; "classes": outputs are class numbers, and the error is the share of them that changes; "share":
    the error is one by itself, of pixels or boxes, as `compared` of the outputs says."""
    error: Spread
    """Over all inputs and elements, the identity left out; the largest over the outputs."""
    floor: float
    """Mean over elements of their floors, in the same unit."""
    bound: float
    """Upper end of the interval of the mean error over inputs, of the element where it is largest; where there is no
    interval, the largest error."""
    asked: bool = False
    """Whether the unit was asked for, and not found as that in which the error is larger."""
    tolerance: float | None = None
    """The error that was called acceptable; null: none was."""
    rounding: float = 0.0
    """The part of the floor that is not interpolation: rounding, and the noise of a model that is random."""
    steady: MeanEstimate | None = None
    """What of the error is no rounding, a root mean square over the inputs under the element where it is largest; null:
    rounding left nothing open."""
    steady_unit: Unit | None = None
    """What `steady` is relative to: the spread between inputs, or ‖f(x)‖ where outputs have none."""

    @property
    def hiding(self) -> Reason:
        """What most of the floor is."""
        return "interpolation" if self.rounding < self.floor / 2 else "rounding"

    def standing(self, limit: float) -> tuple[Standing, MeanEstimate]:
        """Where the mean error stands to a limit, and what says so: what is no rounding, if rounding leaves it open."""
        error = self.error.bounded
        if math.isnan(self.error.estimate.high):  # of few inputs, or of few elements, under each of which there is one
            error = replace(error, high=self.bound)
        found = standing(error, self.floor, limit)
        if found != "open" or self.steady is None or self.steady_unit not in (None, self.unit):
            return found, self.error.estimate
        return standing(self.steady, self.floor - self.rounding, limit), self.steady


@dataclass(frozen=True)
class Counterexample:
    """One moved input whose error is above its own floor, measured for it and seen again each time."""

    label: str
    """The element."""
    index: int
    """Row of the sample."""
    error: float
    """In the headline's unit."""
    floor: float
    """The floor of this input under this element, in the unit of `error`."""


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
    method: Literal["float64", "perturbation", "copies", "none"]
    """"float64": against the model in double precision; "perturbation": inputs changed by one rounding; "copies": how
    violations differ between copies of the inputs that are changed by 1/64."""


SetKind = Literal["data", "noise", "shuffled", "other"]
RuleUnit = Literal["norm", "spread", "classes"]


@dataclass(frozen=True)
class RuleResult:
    """The rule by which one output moves, fitted on half of the inputs and tested on the other half."""

    output: str
    found: bool
    """Whether its error is below a quarter of that of an invariant output under every generator, by tests that hold for
    all rules at once."""
    kind: Literal["permutation", "kind", "none"]
    """"permutation": classes or channels change places; "kind": vectors, images, …; "none": no rule was found."""
    rule: str
    """The rule in words; of outputs without a rule the one that came nearest."""
    by_hand: str | None
    """What to give as output_action for the same; null: only "find" gives it."""
    error: MeanEstimate | None
    """Mean error with this rule, on the inputs that did not fit it."""
    invariant: MeanEstimate | None
    """Mean error of the same inputs as an invariant output."""
    unit: RuleUnit
    """What both are relative to."""
    agreement: MeanEstimate | None = None
    """The share of predictions that move as the rule says, on the inputs that tested; null without classes."""


@dataclass(frozen=True)
class ElementResult:
    """Everything about one element of the group."""

    label: str
    parameter: Element
    """Replays the element: a number of the finite group, an angle in degrees, a matrix, a permutation."""
    angle: float | None
    """Degrees, if the element is a turn of the plane; null if not."""
    exact: bool
    """False: the inputs were resampled."""
    error: Spread
    floor: float
    """The largest of the floors: resampling, rounding, noise."""
    at_floor: bool
    """Whether the error is no larger than what the floor explains."""
    same_prediction: float | None
    """Share of inputs whose predicted class stays; null if the output is not a vector of class scores."""
    judged: Spread
    """The error in the headline's unit."""
    judged_floor: float
    """The floor in the headline's unit."""
    above: bool
    """Whether some output fails under it."""


@dataclass(frozen=True)
class OrbitSection:
    """What the model does along orbits {ρ(g)x}."""

    same_predictions: MeanEstimate | None
    """Share of the elements, the identity left out, that keep the predicted class; null without class scores."""
    answers: int | None
    """How many different classes were predicted; null without classes."""


@dataclass(frozen=True)
class RelativeSection:
    """The violation in other units than the output's own norm."""

    task: str | None
    """"root mean square error" or "error rate"; null without labels."""
    task_error: float | None
    transformed_task_error: float | None
    """The task's error on transformed inputs."""
    error_by_spread: Spread | None
    """Violations over the spread between inputs and moved copies, the largest over the outputs; null where there is
    none."""
    floor_by_spread: float | None
    """Mean over elements of their floors, in the same unit."""


@dataclass(frozen=True)
class SetResult:
    """The error on one set of inputs, on the data or off it."""

    name: str
    kind: SetKind
    inputs: int
    judged: MeanEstimate
    """The error in the headline's unit; a spread is that between the inputs of this set."""
    judged_floor: float
    above: bool
    """Whether the error lies above twice its floor and, if there is a tolerance, above that, by its interval; false of
    errors that their floor is too large to tell. Off the data no model is called equivariant that has one."""


@dataclass(frozen=True)
class OrbitPoint:
    """One point of an orbit: the input as the model saw it, and what it answered."""

    label: str
    inputs: dict[str, Any]
    """Arrays by input name, as nested lists; inputs that do not transform and large ones are left out."""
    prediction: list[float] | None
    """The first output, flattened; null if it is large."""
    error: float
    """In the headline's unit."""


@dataclass(frozen=True)
class AuditWitness:
    """An input and the element with which its error is largest; enough to replay it."""

    index: int
    """Row of the sample."""
    label: str
    parameter: Element
    error: float
    """In the headline's unit."""
    image_layout: Literal["channels_last", "channels_first"] | None
    """Not null: the first transformed input is an image, its channels where this says."""
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
    """What the group does to it; "none": it does not transform."""
    exact: bool
    """False: the action resamples, and is one only approximately."""


@dataclass(frozen=True)
class Matching:
    """How items of f(ρ(g)x) were matched with those of ρ(g)f(x); means over elements and inputs."""

    iou: MeanEstimate | None
    """Mean IoU of the matched boxes; null where items are no boxes, or none was matched."""
    missed: MeanEstimate | None
    """Share of the items of ρ(g)f(x) without a partner; null where there are none."""
    extra: MeanEstimate | None
    """Share of the items of f(ρ(g)x) without a partner; null where there are none."""


@dataclass(frozen=True)
class OutputContract:
    """One array that the model returns, how it should transform, and the error of that array alone."""

    name: str
    shape: list[int]
    """Shape for one input."""
    action: str
    """How it should transform; "invariant": not at all."""
    error: MeanEstimate
    judged: MeanEstimate
    """The error in the headline's unit, or in the output's own, `unit`."""
    floor: float
    """Mean over elements of its floors, in the same unit."""
    rms: float
    """Root mean square of its norm over the inputs."""
    scale: float | None
    """The output_scale that was given for it."""
    vanishes: bool
    """Whether it is no larger than its rounding for all inputs, moved or not."""
    fails_under: list[str]
    """Labels of the elements under which it fails: its interval lies above twice the floor, and above the tolerance."""
    compared: str | None
    """What its error is, of masks of classes and of sets; null: the norm of a difference."""
    matching: Matching | None
    """What was matched, missed and extra, where the output is a set."""
    unit: Unit
    """What `judged` is relative to: that of the headline, but for class numbers, masks and sets, outputs with an
    output_scale, and outputs without a spread."""


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
    law: bool
    """False: transforms, which form no group; their strengths stand where elements do."""

    @property
    def noun(self) -> str:
        """What is tried: "element" or "strength"."""
        return "element" if self.law else "strength"


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


_ALIKE = 1e-5
"""Members whose part of the violation is this share of the whole differ by rounding alone."""


LayerReason = Literal["none", "random", "outside", "layer", "mended"]
LAYER_REASONS: dict[LayerReason, str] = {
    "none": "no layer breaks the symmetry",
    "random": "the layer is random",
    "outside": "an operation before the layer, outside any",
    "layer": "features transform with the input up to this layer",
    "mended": "later layers mend what an earlier one breaks",
}
"""How the symmetry breaks: the code that reports and JSON hold, and what it means."""


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
    """What more members cure: the coefficient of 1/√M."""
    limit: MeanEstimate
    """What more members will not cure: the error at M → ∞."""

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
"""What is missing where the labels do not fit."""
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
    """What one remedy would bring, and what it costs."""

    name: RemedyName
    how: How
    """How `after` is known, or why it is not."""
    cost: int
    """How many of `cost_unit`."""
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
    """Where the time went."""

    total_seconds: float
    model_seconds: float
    """Inside the model."""
    evaluations: int
    """Inputs that the model, its members, layers and changed copies were given, in all parts of the audit;
    copies that fill up a batch count."""
    batches: int
    """Calls in which they were given."""


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """All that an audit found, as its report holds it."""

    format: Literal["equitangents.audit/3"]
    verdict: Verdict
    """"equivariant": every element at its floor; "equivariant within tolerance": above it, and for no element above the
    tolerance that was given; "equivariant on its data": one of these on the data, and above both on another set;
    "broken": some element is above its floor, and above the tolerance, or, without a tolerance, a single input is, or a
    moved input gave NaN; "undecided": `reason` says why."""
    reason: Reason
    """Why the verdict is what it is."""
    contract: ContractSection
    model: ModelSection
    error: Spread
    """Relative to ‖f(x)‖, over all inputs and elements, the identity left out."""
    floor: float
    """Mean over elements of their floors, relative to ‖f(x)‖."""
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
    """What was asked for of intervals, inputs a batch, and how many inputs there are."""
    versions: dict[str, str]
    timing: Timing
    citations: list[str]
    """What to cite for the methods that this audit used."""
    headline: Headline
    """The error that the first line and the verdict use, and its unit."""
    errors: Float[np.ndarray, "elements inputs"] = field(metadata={"json": False})
    rules: list[RuleResult] = field(default_factory=list)
    """How outputs move, of those of which that was asked for ("find")."""

    averaged: Callable[..., Any] | None = field(default=None, metadata={"json": False})
    """Makes the model with a remedy."""
    counterexample: Counterexample | None = None
    """A single input that is far above its floor, where no mean is."""
    undefined: list[UndefinedPose] = field(default_factory=list)
    """Elements under which the model gave NaN or infinite values; all errors are those of the other inputs."""
    unmoved: int = 0
    """Inputs that no element moves, and that were left out, unless all are such."""

    @property
    def unscaled(self) -> bool:
        """Whether all outputs vanish, and errors are not relative to anything."""
        return self.headline.unit == "absolute" and all(o.scale is None for o in self.contract.outputs)

    @property
    def unit(self) -> str:
        """What the headline's error is relative to, "of ‖f(x)‖"."""
        return "in the outputs' own unit" if self.unscaled else UNITS[self.headline.unit]

    def unit_of(self, output: OutputContract) -> str:
        """What one output's error is relative to; it may have a unit of its own."""
        if output.unit == "absolute" and output.scale is None:
            return self.unit
        return UNITS[output.unit]
