"""What a plan says: the number of members, how the violation falls with it, and what the alternatives cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equitangents._types import AnyModel, FileName
from equitangents.files import whole_file
from equitangents.nn.mean_law import MeanLaw
from equitangents.planning import words
from equitangents.planning.alternatives import Alternative
from equitangents.planning.pilot import Pilot
from equitangents.planning.violations import MEASURES, Curve, CurvePoint, Violations, percent
from equitangents.planning.words import Goal
from equitangents.validation import check_whole

_WRITTEN = (
    "measure",
    "target",
    "confidence",
    "over_inputs",
    "network",
    "group",
    "data",
    "time",
    "inputs",
    "order",
    "draws",
    "limit",
    "limit_upper",
    "members",
    "theory_members",
    "equivariant",
    "reason",
    "answer",
    "exact",
    "augmentation_order",
    "max_members",
)
_FROM_PILOT = "How far the mean of infinitely many such networks is from equivariance is read from the pilot."


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How many members meet the target; `str(plan)` is a table.

    members            the smallest number whose `confidence` quantile across ensembles is ≤ target, or None
    members_interval   of that number; None where beyond max_members, or so far out that the draws do not tell. From a
                       pilot 90 %, of its chance and of the draws; from theory alone 95 %, of the finite number of draws
                       and of nothing else
    limit, limit_upper the violation of infinitely many members, its median and `confidence` quantile; equal if known
    curve              the violation for numbers of members from 1 on: between `lower` and `upper` lie a share
                       2·confidence − 1 of ensembles, trained ones if there is a pilot
    alternatives       exactly equivariant predictors and their costs beside the ensemble's
    network, group, data   what is planned for, in words
    pilot              the trained networks that the plan is made from, or None: infinitely wide ones
    theory_members     what infinitely wide networks would need, if compared
    equivariant        whether the mean of infinitely many networks like the pilot's is known to be equivariant
    mean_law           whether it is so at this width or in the limit alone, and why; None where nothing is known
    trained            the pilot itself, a fitted ensemble that `extend(plan.members, X, y)` trains on, or None
    """

    measure: str
    target: float
    confidence: float
    over_inputs: str
    network: str
    group: str
    elements: str
    data: str
    time: float | None
    inputs: int
    order: int
    draws: int
    limit: float
    limit_upper: float
    pilot: Pilot | None
    theory_members: int | None
    equivariant: bool | None
    mean_law: MeanLaw | None
    trained: AnyModel
    exact: bool
    augmentation_order: int
    members: int | None
    members_interval: tuple[int | None, int | None]
    curve: tuple[CurvePoint, ...]
    alternatives: tuple[Alternative, ...]
    max_members: int
    _violations: Violations

    def violation(self, members: int) -> CurvePoint:
        """The violation of ensembles of any size, from the same draws."""
        check_whole("members", members, 1)
        return self._violations.point(members, self.confidence)

    def meets(self, violation: float) -> bool:
        """Whether a violation is at most the target, counted in whole numbers where it is a share of points."""
        return violation <= self._violations.threshold(self.target)

    @property
    def reason(self) -> str | None:
        """Why there is no number of members, or None."""
        if self.members is not None:
            return None
        if self.meets(self.limit_upper):
            return f"more than {self.max_members:,} {self._goal.members()} are needed"
        cause = "" if self.augmentation_order > 1 else "; they are trained without augmentation"
        if not self.meets(self.limit):
            return self._goal.at(self.limit) + cause
        return self._goal.may_be_at(self.limit_upper) + cause

    @property
    def answer(self) -> str:
        """The result in words."""
        goal = self._goal
        if self.members is None:
            if self.meets(self.limit_upper):
                return f"More than {goal.members(self.max_members)} are needed to {goal.reached}."
            return f"No number of {goal.members()} {goal.singular}: {self.reason}."
        parts = [
            words.reached(goal, self.members, self.confidence, self.pilot),
            words.known(self.members_interval, self.draws, self.pilot),
        ]
        if self.theory_members is not None:
            parts.append(f"Infinitely wide networks would need {self.theory_members:,}.")
        return " ".join(parts)

    def notes(self) -> list[str]:
        """What the numbers rest on, and what their intervals cover."""
        points = f"jointly over {self.inputs} inputs and {self.order} group elements"
        level = percent(max(0.0, 2 * self.confidence - 1))
        if self.pilot is None:
            basis = [
                f"{self.draws:,} ensembles were drawn from GP(μ, Σ/M) at training time {self.time:g}, {points}.",
                words.width_note(),
                "Full-batch gradient descent on the mean square is assumed; noise from batches, momentum and other "
                "losses are not modelled.",
            ]
        else:
            pilot = self.pilot
            basis = [
                f"The pilot: {pilot}.",
                f"{self.draws:,} ensembles were drawn from the mean and covariance of the pilot's outputs, {points}, "
                "and from what the pilot leaves uncertain of both. Between the lower and the upper violation of the "
                f"table lie {level} of ensembles trained like the pilot.",
                *([] if self.equivariant else [_FROM_PILOT]),
            ]
        return [
            *basis,
            *([] if self.mean_law is None else [str(self.mean_law)]),
            "Costs are in units of one network of the planned architecture and assume that hidden layers dominate.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **{name: _plain(getattr(self, name)) for name in _WRITTEN},
            "members_interval": list(self.members_interval),
            "curve": [{key: _plain(value) for key, value in vars(p).items()} for p in self.curve],
            "alternatives": [a.to_dict() for a in self.alternatives],
            "pilot": None if self.pilot is None else self.pilot.to_dict(),
            "notes": self.notes(),
        }

    def to_json(self, path: FileName) -> Path:
        """Write `to_dict` to a file; infinite numbers are written as text."""
        path = Path(path)
        with whole_file(path) as partial:
            partial.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return path

    def plot(self, path: FileName) -> Path:
        """Draw the violation against the number of members into a .svg or .png file."""
        from equitangents.planning.page import write_drawing  # matplotlib is slow to import

        return write_drawing(self._drawn(), Path(path))

    def to_html(self, path: FileName) -> Path:
        """Write answer, drawing and tables as one self-contained page."""
        from equitangents.planning.page import svg, write_page

        lower, upper = self._columns()
        return write_page(
            Path(path),
            answer=self.answer,
            facts=self._facts(),
            measure=MEASURES[self.measure].title,
            over_inputs=self.over_inputs,
            lower=lower,
            upper=upper,
            drawing=svg(self._drawn()),
            rows=self._rows(),
            alternatives=self.alternatives,
            notes=self.notes(),
        )

    def _drawn(self) -> Curve:
        return Curve(
            self.curve,
            self.target,
            self.limit,
            self.members,
            MEASURES[self.measure].title,
            f"{percent(self.confidence)} of ensembles below",
            self._goal.members(),
        )

    def _facts(self) -> dict[str, str]:
        if self.members is not None:
            members = f"{self.members:,}"
        else:
            members = f"more than {self.max_members:,}" if self.meets(self.limit_upper) else "none suffices"
        facts = {
            "Members": members,
            "Target": f"{self.target:g}",
            "Ensembles that meet it": percent(self.confidence),
            "Network": self.network,
            "Group": self.group,
            "Data": self.data,
            "Inputs": str(self.inputs),
        }
        if self.pilot is not None:
            facts["Pilot"] = str(self.pilot).split(";")[0]
        else:
            facts["Training time"] = f"{self.time:g}"
        return facts

    def _columns(self) -> tuple[str, str]:
        return tuple(f"{percent(q)} of ensembles below" for q in (1 - self.confidence, self.confidence))  # type: ignore[return-value]

    def _rows(self) -> list[tuple[str, ...]]:
        told = lambda meets: "yes" if meets else "no"
        rows = [
            (f"{p.members:,}", f"{p.median:.4g}", f"{p.lower:.4g}", f"{p.upper:.4g}", told(self.meets(p.upper)))
            for p in self.curve
        ]
        lower = float(self._violations.limit(1 - self.confidence))
        limit = (f"{v:.4g}" for v in (self.limit, lower, self.limit_upper))
        return [*rows, ("∞", *limit, told(self.meets(self.limit_upper)))]

    @property
    def _goal(self) -> Goal:
        return Goal(self.measure, self.target, self.over_inputs, self.inputs, self.elements)

    def __repr__(self) -> str:
        lines = [self.answer, "", *(f"{k}: {v}" for k, v in self._facts().items() if k in ("Network", "Group", "Data"))]
        lower, upper = (f"{percent(q)} below" for q in (1 - self.confidence, self.confidence))
        lines += ["", f"{'members':>10}  {'median':>10}  {lower:>10}  {upper:>10}"]
        lines += ["  ".join(f"{cell:>10}" for cell in row[:4]) for row in self._rows()]
        lines += ["", f"{'':<50}{'parameters':>11}{'prediction':>11}{'training':>10}  violation"]
        lines += [
            f"{a.name:<50}{a.parameters:>11.4g}{a.prediction:>11.4g}{a.training:>10.4g}  {a.violation}"
            for a in self.alternatives
        ]
        return "\n".join([*lines, "", *self.notes()])


def _plain(value: object) -> object:
    """Numbers that JSON knows; infinite ones as text."""
    return str(value) if isinstance(value, float) and value - value != 0 else value
