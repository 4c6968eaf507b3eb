"""How the outputs move when the inputs do, where they are not invariant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from equitangents.audit.report.sections.errors import Estimate

RuleUnit = Literal["norm", "spread", "classes"]


@dataclass(frozen=True)
class RuleResult:
    """The rule by which one output moves, fitted on half of the inputs and tested on the other half."""

    output: str
    found: bool
    """Whether its error is below a quarter of that of an invariant output under every generator, by tests that hold for
    all rules at once."""
    kind: Literal["permutation", "orthogonal", "kind", "inverse", "none"]
    """"permutation": classes or channels change places; "orthogonal": a matrix acts on them; "kind": vectors, images,
    irreps, …; "inverse": the action that was given, with the inverse elements; "none": no rule was found."""
    rule: str
    """The rule in words; of outputs without a rule the one that came nearest."""
    by_hand: str | None
    """What to give as output_action for the same; null: only "find" gives it."""
    error: Estimate | None
    """Mean error with this rule, on the inputs that did not fit it."""
    invariant: Estimate | None
    """Mean error of the same inputs as an invariant output, or with the action that was given."""
    unit: RuleUnit
    """What both are relative to."""
    defect: float | None
    """How far the fitted matrices of the generators are from the relations of the group; 0: they hold."""
    fitted_on: int
    """Inputs that fitted the rule."""
    tested_on: int
    """Inputs that tested it."""
    tried: list[str]
    """The rules that were tested."""
    agreement: Estimate | None = field(default=None, kw_only=True)
    """The share of predictions that move as the rule says, on the inputs that tested; null without classes."""
    probability: Estimate | None = field(default=None, kw_only=True)
    """By how much probabilities differ from those that the rule gives, over √2."""
    tests: int
    """How many tests the finding accounts for: rules, generators and outputs."""
