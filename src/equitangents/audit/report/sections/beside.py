"""What lies beside the error: members, the data's own symmetry, remedies, points of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from equitangents.audit.report.sections.errors import Estimate


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
    by_design: str | None = None
    """Whether the mean of infinitely many such members is equivariant at this width, or in the limit of infinite width
    alone; null where the layers do not tell, or the members were not trained on all copies of their data."""


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
    """The share of inputs as they are given whose nearest neighbour has their label: the mark to compare with."""


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
    """This error with the remedy; null: not known."""
    passes_before: int | None = None
    """Forward passes for every input now; for the remedy of more members alone."""
    mixed_before: float | None = None
    """The task's error over inputs in all orientations alike, the given one and those that were tried."""
    mixed_after: float | None = None
    passes_after: int | None = None
    """Forward passes for every input with as many members as the law asks for; null: no number of them does, or none
    more is needed."""


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
