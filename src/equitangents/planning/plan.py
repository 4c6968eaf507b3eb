"""What a plan says: the number of members, how the violation falls with it, and what the alternatives cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equitangents.planning.alternatives import Alternative
from equitangents.planning.pilot import PilotRatios
from equitangents.planning.violations import MEASURES, CurvePoint, Violations
from equitangents.validation import check_whole


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How many members meet the target; `str(plan)` is a table.

    members            the smallest number whose `confidence` quantile across ensembles is ≤ target, or None
    members_interval   95 % interval of that number, from the finite number of draws; None where beyond max_members
    limit              the violation of infinitely many members
    curve              the violation for numbers of members from 1 on
    alternatives       exactly equivariant predictors and their costs beside the ensemble's
    pilot              by what a pilot multiplied the predicted mean and variance along orbits, or None
    """

    measure: str
    target: float
    confidence: float
    over_inputs: str
    time: float
    inputs: int
    order: int
    draws: int
    limit: float
    pilot: PilotRatios | None
    exact: bool
    augmentation_order: int
    _violations: Violations
    members: int | None = None
    members_interval: tuple[int | None, int | None] = (None, None)
    curve: tuple[CurvePoint, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    max_members: int = 1

    def violation(self, members: int) -> CurvePoint:
        """The violation of ensembles of any size, from the same draws."""
        check_whole("members", members, 1)
        return self._violations.point(members, self.confidence)

    @property
    def reason(self) -> str | None:
        """Why there is no number of members, or None."""
        if self.members is not None:
            return None
        if self.limit > self.target:
            cause = "" if self.augmentation_order > 1 else "; they are trained without augmentation"
            return f"infinitely many members are at {self.limit:.3g}, above the target{cause}"
        return f"more than {self.max_members:,} members are needed"

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        title = MEASURES[self.measure].title
        what = f"the {title}, {self.over_inputs} over {self.inputs} inputs, to at most {self.target:g}"
        if self.members is None:
            return f"No number of members brings {what}: {self.reason}."
        low, high = self.members_interval
        interval = f"95 % interval {low:,} to {f'{high:,}' if high is not None else 'beyond the limit'}"
        networks = "member brings" if self.members == 1 else "members bring"
        return f"{self.members:,} {networks} {what} in {self.confidence:.0%} of ensembles ({interval})."

    def notes(self) -> list[str]:
        """What the numbers rest on."""
        width = (
            "Networks are infinitely wide; finite width changes their mean and spread by shares of order 1/width."
            if self.pilot is None
            else f"Mean and variance along orbits are those of the pilot: {self.pilot}."
        )
        return [
            f"{self.draws:,} ensembles were drawn from GP(μ, Σ/M) at training time {self.time:g}, jointly over "
            f"{self.inputs} inputs and {self.order} group elements.",
            width,
            "Full-batch gradient descent on the mean square is assumed; noise from batches, momentum and other losses "
            "are not modelled.",
            "Costs are in units of one network of the planned architecture and assume that hidden layers dominate.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        names = (
            "measure",
            "target",
            "confidence",
            "over_inputs",
            "time",
            "inputs",
            "order",
            "draws",
            "limit",
            "members",
            "reason",
            "exact",
            "augmentation_order",
            "max_members",
        )
        return {
            **{name: _plain(getattr(self, name)) for name in names},
            "members_interval": list(self.members_interval),
            "curve": [{key: _plain(value) for key, value in vars(p).items()} for p in self.curve],
            "alternatives": [a.to_dict() for a in self.alternatives],
            "pilot": None if self.pilot is None else self.pilot.to_dict(),
            "notes": self.notes(),
        }

    def to_json(self, path: Any) -> Path:
        """Write `to_dict` to a file; infinite numbers are written as text."""
        path = Path(path)
        path.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return path

    def plot(self, path: Any) -> Path:
        """Draw the violation against the number of members into a .svg or .png file."""
        from equitangents.planning.drawing import write

        return write(self, Path(path))

    def to_html(self, path: Any) -> Path:
        """Write answer, drawing and tables as one self-contained page."""
        from equitangents.planning.page import write

        return write(self, Path(path))

    def __repr__(self) -> str:
        lines = [self.answer, "", f"{'members':>10}  {'median':>10}  {f'{self.confidence:.0%} below':>10}"]
        lines += [f"{p.members:>10,}  {p.median:>10.4g}  {p.upper:>10.4g}" for p in self.curve]
        lines += [f"{'∞':>10}  {self.limit:>10.4g}  {self.limit:>10.4g}", ""]
        lines.append(f"{'':<50}{'parameters':>11}{'prediction':>11}{'training':>10}  violation")
        lines += [
            f"{a.name:<50}{a.parameters:>11.4g}{a.prediction:>11.4g}{a.training:>10.4g}  {a.violation}"
            for a in self.alternatives
        ]
        return "\n".join([*lines, "", *self.notes()])


def _plain(value: Any) -> Any:
    """Numbers that JSON knows; infinite ones as text."""
    return str(value) if isinstance(value, float) and value - value != 0 else value
