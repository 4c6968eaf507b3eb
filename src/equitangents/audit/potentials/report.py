"""The report of an audit of a potential, and what continuous integration asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from equitangents.audit.potentials.results import BrokenPose, Outcome, Row, StructureResult, worst_row
from equitangents.audit.report.checks import Check
from equitangents.audit.report.forms import Content, WrittenReport, settings_section
from equitangents.audit.report.numbers import FACTOR, MeanEstimate, folded, interval, number, standing
from equitangents.audit.report.rows import LENGTH
from equitangents.audit.report.sections import MissingSection
from equitangents.keywords import unknown
from equitangents.report.numbers import format_number
from equitangents.report.render import Section, Table

FORMAT: Literal["equitangents.audit.atoms/2"] = "equitangents.audit.atoms/2"
AtomsReason = Literal[
    "at noise floor", "below the tolerance", "above the tolerance", "not finite", "raises", "undecided tests",
]  # fmt: skip
HEAD = ["test", "quantity", "error", "unit", "relative", "noise floor", "tolerance", "outcome", "worst", "note"]


@dataclass(frozen=True, eq=False, repr=False)
class AtomsReport(WrittenReport):
    """Everything that an audit of a potential found; made by `equitangents.audit.atoms`."""

    format: Literal["equitangents.audit.atoms/2"]
    verdict: Outcome
    """"fails" if some row does, or some pose has no finite result, else "undecided" if some row is, else "within
    tolerance" if some error is above its floor, else "holds"."""
    reason: AtomsReason
    """Why the verdict was reached."""
    calculator: str
    precision: Literal["single", "double"]
    """The apparent precision of the numbers."""
    structures: list[StructureResult]
    rows: list[Row]
    """One per test and quantity."""
    missing: list[MissingSection]
    settings: dict[str, Any]
    versions: dict[str, str]
    evaluations: int
    """Calls of the calculator."""
    seconds: float
    """In the calculator."""
    total_seconds: float
    broken: list[BrokenPose] = field(default_factory=list)
    """Poses for which the calculator gives no finite result, or raises."""
    noise: dict[str, float] = field(default_factory=dict)
    """Quantities that differ from call to call, and by how much (root mean square, in the unit of their rows)."""

    def row(self, test: str, quantity: str | None = None) -> Row:
        """The row of a test, and of a quantity where there are several; KeyError if there is none."""
        for row in self.rows:
            if row.test == test and quantity in (None, row.quantity):
                return row
        raise KeyError(f"no row of {test!r}{'' if quantity is None else f' and {quantity!r}'}")

    @property
    def first_line(self) -> str:
        """Verdict, the row that decides with its interval and noise floor, and how many tests fail."""
        row, failing = worst_row(self.rows), sum(r.outcome == "fails" for r in self.rows)
        head = f"{self.verdict} ({self.reason}): {row.test} of {row.quantity}"
        floor = f"{row.unit}, noise floor {format_number(row.floor)}"
        tail = f"{failing} of {len(self.rows)} tests fail, {self.calculator}"
        lines = [
            f"{head} {error} {floor}, {tail}"
            for error in (interval(row.error, format_number), format_number(row.error.mean))
        ]
        return next((line for line in lines if len(line) <= LENGTH), folded(lines[-1], LENGTH))

    def content(self) -> Content:
        """Tables, test cases and page: one case per row, and one per pose without a finite result."""
        cases = [Check(f"{r.test}, {r.quantity}", r.outcome != "fails", " ".join(cells(r)[2:])) for r in self.rows]
        return Content(
            title="Audit of a potential",
            name=self.calculator,
            tables=self._tables(),
            cases=cases + [Check(f"{p.test}, {p.move or 'pose'}", False, p.result) for p in self.broken],
            sections=self._sections,
        )

    def _tables(self) -> list[Table]:
        """One row per test and quantity; the first poses without a result; tests that were left out."""
        poses = [[p.test, str(p.structure), p.move, folded(p.result, 200)] for p in self.broken[:_POSES]]
        missing = [[m.section, folded(m.reason, 200)] for m in self.missing]
        tables = [Table("", HEAD, [cells(r) for r in self.rows], text=True)]
        tables += [Table("Poses without a result", _OF_POSES, poses, text=True)] * bool(poses)
        return tables + [Table("Left out", _LEFT_OUT, missing, text=True)] * bool(missing)

    def _sections(self) -> list[Section]:
        force = lambda s: "" if s.rms_force is None else format_number(s.rms_force)
        known = lambda s: [str(s.index), s.formula, str(s.atoms), _YES[s.periodic], force(s), _YES[s.at_rest]]
        structures = Table("", _OF_STRUCTURES, [known(s) for s in self.structures])
        settings = {"evaluations": self.evaluations, "seconds": format_number(self.seconds),
                    "numbers look like": self.precision, **self.settings, **self.versions}  # fmt: skip
        return [
            Section("Tests", [_FLOORS], self._tables()),
            Section("Structures", shown=[structures]),
            settings_section(settings),
        ]


_YES = {True: "yes", False: "no"}
_OF_STRUCTURES = ["number", "formula", "atoms", "periodic", "rms force, meV/Å", "at rest"]
_FLOORS = (
    "The noise floor is the error due to rounding, chance and finite steps. An error holds if it is at most twice its "
    "floor, and is within tolerance if it is larger than that but too small for dynamics to notice; where twice the "
    "floor is above the tolerance, nothing smaller is decided. Relative errors leave out structures at rest."
)
_POSES = 5
_OF_POSES, _LEFT_OUT = ["pose of", "structure", "move", "result"], ["left out", "reason"]


def cells(r: Row) -> list[str]:
    """The row under `HEAD`."""
    return [
        r.test,
        r.quantity,
        interval(r.error, format_number),
        r.unit,
        "" if r.relative is None else number(r.relative.mean),
        format_number(r.floor),
        format_number(r.tolerance),
        r.outcome,
        " ".join(["structure", str(r.worst_structure), r.worst_move]),
        "; ".join(filter(None, (r.note, r.decide))),
    ]


def below(report: AtomsReport, limits: float | Mapping[str, float]) -> list[Check]:
    """Whether relative errors are at most the limit of all, of their quantity, or of their test.

    An undecided error, or a pose without a result, does not meet a limit.
    """
    if isinstance(limits, Mapping):
        known = list(dict.fromkeys(name for r in report.rows for name in (r.quantity, r.test)))
        for name in limits:
            if name not in known:
                raise unknown("fail_above", name, known)
    checks = [Check(f"{p.test}: every pose has a finite result", False, p.result) for p in report.broken]
    for r in report.rows:
        limit = limits.get(r.quantity, limits.get(r.test)) if isinstance(limits, Mapping) else limits
        if limit is None:
            continue
        name = f"{r.test}, {r.quantity} ≤ {limit:g}"
        if r.outcome == "undecided" and (r.blind or not FACTOR * r.floor <= r.tolerance):
            checks.append(Check(name, False, r.decide, undecided=True))
        elif r.relative is not None:
            checks.append(_relative(r, r.relative, limit, name))
    return checks


def _relative(r: Row, error: MeanEstimate, limit: float, name: str) -> Check:
    """The check of a relative error against its noise floor and a limit."""
    floor = r.floor * error.mean / r.error.mean if r.error.mean else 0.0
    stands = standing(error, floor, limit)
    return Check(name, stands == "within", interval(error), undecided=stands == "open")
