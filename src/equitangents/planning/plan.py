"""A plan: the number of members, and the violation as a function of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from equitangents._types import AnyModel, FileName
from equitangents.files import atomic_file
from equitangents.nn.admissible import MeanLaw
from equitangents.planning.pilot import Pilot
from equitangents.planning.violations import MEASURES, CurvePoint, Violations
from equitangents.validation import check_whole

Outcome = Literal["met", "more than max_members", "limit may miss the target", "limit misses the target"]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How many members meet the target; `str(plan)` is a table.

    members            the smallest number whose `confidence` quantile across ensembles is ≤ target, or None
    members_interval   its interval; None beyond max_members, or if the draws do not determine it. From a pilot 90 %,
                       of its chance and the draws; from theory 95 %, of the finite number of draws only, not of
                       effects of finite width, batch noise or another loss
    limit, limit_upper the violation of infinitely many members, its median and `confidence` quantile; equal if known
    curve              the violation by number of members: a share 2·confidence − 1 of ensembles (trained ones, with
                       a pilot) lies between `lower` and `upper`
    group              name of the symmetry group
    pilot              size and training of the pilot; None: planned from theory
    equivariant        whether the mean of infinitely many networks like the pilot's is known to be equivariant
    mean_law           whether that holds at this width or only in the limit, and why; None: unknown
    trained            the pilot itself, a fitted ensemble that `extend(plan.members, X, y)` trains on, or None
    """

    measure: str
    target: float
    confidence: float
    over_inputs: str
    group: str
    time: float | None
    inputs: int
    order: int
    draws: int
    limit: float
    limit_upper: float
    pilot: Pilot | None
    equivariant: bool | None
    mean_law: MeanLaw | None
    trained: AnyModel
    exact: bool
    augmentation_order: int
    members: int | None
    members_interval: tuple[int | None, int | None]
    curve: tuple[CurvePoint, ...]
    max_members: int
    _violations: Violations

    def violation(self, members: int) -> CurvePoint:
        """The violation of ensembles of any size, from the same draws."""
        check_whole("members", members, 1)
        return self._violations.point(members, self.confidence)

    def meets(self, violation: float) -> bool:
        """Whether a violation is at most the target, compared exactly for shares of points."""
        return violation <= self._violations.threshold(self.target)

    @property
    def outcome(self) -> Outcome:
        """Whether a number of members meets the target, else whether infinitely many do."""
        if self.members is not None:
            return "met"
        if self.meets(self.limit_upper):
            return "more than max_members"
        return "limit may miss the target" if self.meets(self.limit) else "limit misses the target"

    def to_dict(self) -> dict[str, Any]:
        """The plan as values for JSON."""
        left_out = ("mean_law", "trained", "_violations")
        entries = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in left_out}
        return entries | {
            "outcome": self.outcome,
            "members_interval": list(self.members_interval),
            "curve": [{key: _plain(value) for key, value in vars(p).items()} for p in self.curve],
            "pilot": None if self.pilot is None else vars(self.pilot),
        }

    def to_json(self, path: FileName) -> Path:
        """Write `to_dict` to a file; infinite numbers are written as text."""
        path = Path(path)
        with atomic_file(path) as partial:
            partial.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return path

    def _facts(self) -> dict[str, str]:
        facts = {
            "members": _number(self.members),
            "interval": " to ".join(map(_number, self.members_interval)),
            "outcome": self.outcome,
            "measure": f"{MEASURES[self.measure].title}, {self.over_inputs} over {self.inputs} inputs",
            "target": f"{self.target:g}",
            "ensembles that meet it": format(self.confidence, ".1%"),
            "group": self.group,
            "augmentation": f"{self.augmentation_order} copies",
            "draws": f"{self.draws:,}",
        }
        if self.time is not None:
            facts["training time"] = f"{self.time:g}"
        if self.equivariant is not None:
            facts["mean equivariant"] = "yes" if self.equivariant else "not known"
        if self.pilot is not None:
            facts["pilot"] = f"{self.pilot.members} networks"
            if self.pilot.seconds is not None:
                facts |= {"pilot, epochs": f"{self.pilot.epochs:,}", "pilot, seconds": f"{self.pilot.seconds:.3g}"}
        return facts

    def _rows(self) -> list[tuple[str, ...]]:
        yes_or_no = lambda reached: "yes" if reached else "no"
        rows = [
            (f"{p.members:,}", f"{p.median:.4g}", f"{p.lower:.4g}", f"{p.upper:.4g}", yes_or_no(self.meets(p.upper)))
            for p in self.curve
        ]
        lower = float(self._violations.limit(1 - self.confidence))
        limit = (f"{v:.4g}" for v in (self.limit, lower, self.limit_upper))
        return [*rows, ("∞", *limit, yes_or_no(self.meets(self.limit_upper)))]

    def __repr__(self) -> str:
        lines = [f"{name:<26}{value}" for name, value in self._facts().items()]
        lower, upper = (f"{q:.1%} below" for q in (1 - self.confidence, self.confidence))
        lines += ["", f"{'members':>10}  {'median':>10}  {lower:>10}  {upper:>10}  {'meets':>5}"]
        lines += ["  ".join((*(f"{cell:>10}" for cell in row[:4]), f"{row[4]:>5}")) for row in self._rows()]
        return "\n".join(lines)


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _plain(value: object) -> object:
    """Infinite numbers as text, which JSON lacks."""
    return str(value) if isinstance(value, float) and value - value != 0 else value
