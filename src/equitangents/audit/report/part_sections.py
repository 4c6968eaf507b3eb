"""Where in a model the violation starts, what lies beside the error, and how the
audit went: members, the data's own symmetry, remedies, points of training, time, and what was left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from equitangents.audit.report.numbers import Estimate

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
    noise: float
    """Relative difference of two evaluations; above 0 in layers that are random."""
    growth: float
    """How much larger the error is than that of the layer's input, or of the layer before where that is not seen."""


@dataclass(frozen=True)
class LayerSection:
    """Where the violation starts."""

    layers: list[LayerResult]
    guilty: str | None
    """Name of the layer where it starts; null if no layer breaks the symmetry."""
    reason: LayerReason
    steepest: str | None
    """Name of the layer where the error grows most; null if no layer breaks the symmetry."""


@dataclass(frozen=True)
class EnsembleSize:
    """The squared violation of the mean of some members, measured and by the fitted law."""

    members: int
    squared_error: Estimate
    fitted: float


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

    @property
    def alike(self) -> bool:
        """Whether all members have the same violation, up to rounding."""
        return self.finite <= _ALIKE * math.sqrt(max(self.sizes[0].squared_error.mean, 0.0))

    @property
    def errors(self) -> tuple[Estimate, Estimate, Estimate]:
        """Root mean square errors of one member, of the mean of all, and of infinitely many: one quantity."""
        one, now = self.sizes[0].squared_error.rooted, self.sizes[-1].squared_error.rooted
        return one, now, now if self.alike else self.limit


@dataclass(frozen=True)
class DataSection:
    """Whether the data have the symmetry: p(x) against p(ρ(g)x)."""

    statistic: float
    """Squared maximum mean discrepancy."""
    p_value: float
    inputs: int
    symmetric: bool | None
    """False: the data tell transformed inputs apart at 5 %; null: too few inputs to say."""


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
    before: Estimate
    """The mean error now, in the headline's unit."""
    after: Estimate | None
    """The same with the remedy; null: not known."""
    task_before: float | None
    """The task's error on the inputs as given; null without labels."""
    task_after: float | None

    @property
    def worse(self) -> bool:
        """Whether the task's error rises."""
        known = self.task_before is not None and self.task_after is not None
        return known and self.task_after > self.task_before * (1 + 1e-9)  # type: ignore[operator]


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
    """Inputs that the model, its members, layers and changed copies were given, in all parts of the audit;
    copies that fill up a batch count."""
    batches: int
    """Calls in which they were given."""
    parts: dict[str, int]
    """Inputs by the part of the audit that needed them; they add up to `evaluations`."""
    passes: float
    """`evaluations` over the inputs of the audit: so often each was evaluated, on average."""


@dataclass(frozen=True)
class AuditSettings:
    """What the audit was asked to do."""

    confidence: float
    resamples: int
    seed: int
    batch_size: int
    inputs: int
    values: dict[str, Any]
