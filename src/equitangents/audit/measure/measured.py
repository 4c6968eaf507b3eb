"""What the pass over the data gave: all parts of an audit that come after it are functions of this."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.floors import Floors
from equitangents.audit.measure.judge import Judgement
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.records import Parts
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.sections import Reason, RuleResult, SetKind, Verdict

NO_GROUP = "transforms form no group, by which it is measured"
"""Why parts that go by products, inverses and averages are missing."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What the pass over the data gave, and what else was asked for."""

    asked: AuditTask
    """The audit as it was asked for."""
    task: AuditTask
    """The audit of the inputs and elements that count."""
    parts: Parts
    y: np.ndarray | None
    sought: list[RuleResult] | None
    """What was found of how the outputs move, where that was asked for."""
    sets: list[tuple[str, SetKind, Inputs]]
    """Other inputs, off the data."""
    orbits: Orbits
    floors: Floors
    judgement: Judgement
    verdict: Verdict
    reason: Reason
    """Why the verdict is what it is."""
    same: Estimate | None
    """Share of predictions that stay the same; None without classes."""

    @property
    def quick(self) -> bool:
        """Whether the error and its floor are asked for alone."""
        return self.task.quick

    @property
    def group(self) -> bool:
        """Whether what moves the inputs is a group, and not changes by a strength."""
        return not self.task.contract.not_a_group
