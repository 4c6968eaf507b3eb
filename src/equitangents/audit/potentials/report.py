"""The report of an audit of a potential, and the ways to write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from equitangents import notebook
from equitangents._types import FileName
from equitangents.audit.potentials.lines import digits, pose_said, poses_said, row_said, rows_said, with_unit
from equitangents.audit.potentials.results import BrokenPose, Outcome, Row, StructureResult
from equitangents.audit.report.checks import Check
from equitangents.audit.report.part_sections import Missing
from equitangents.audit.report.text import escaped, table
from equitangents.audit.report.words import number
from equitangents.audit.report.written import WrittenReport, badge_text, suite
from equitangents.report.palette import COLOURS
from equitangents.report.render import environment

FORMAT: Literal["equitangents.audit.atoms/1"] = "equitangents.audit.atoms/1"
_SIGNS = {"holds": "✅", "within tolerance": "✅", "fails": "❌", "undecided": "❔"}
_BADGES = {
    "holds": ("holds", "✓", "At the floor"),
    "within tolerance": ("holds", "✓", "Within tolerance"),
    "fails": ("fails", "✗", "Fails"),
    "undecided": ("undecided", "?", "Not decidable with this sample"),
}


@dataclass(frozen=True, eq=False, repr=False)
class AtomsReport(WrittenReport):
    """Everything that an audit of a potential found; made by `equitangents.audit.atoms`."""

    format: Literal["equitangents.audit.atoms/1"]
    verdict: Outcome
    """"fails" if some row does, or some pose has no finite result, else "undecided" if some row is, else "within
    tolerance" if some error is above its floor, else "holds"."""
    sentence: str
    advice: list[str]
    """What follows for molecular dynamics."""
    calculator: str
    precision: Literal["single", "double"]
    """What the numbers were computed in, as they look."""
    structures: list[StructureResult]
    rows: list[Row]
    """One a test and quantity."""
    missing: list[Missing]
    settings: dict[str, Any]
    versions: dict[str, str]
    evaluations: int
    """How often the calculator was asked."""
    seconds: float
    """In the calculator."""
    total_seconds: float
    structures_digest: str = ""
    """A hash of the structures, the seed and the number of moves: equal where rows may be compared in pairs."""
    broken: list[BrokenPose] = field(default_factory=list)
    """Poses for which the calculator gives no finite result, or raises."""
    noise: dict[str, float] = field(default_factory=dict)
    """Quantities that differ from call to call, and by how much (root mean square, in the unit of their rows)."""
    partial: bool = False
    """True: the audit was interrupted; `missing` names the tests that were left out."""

    def row(self, test: str, quantity: str | None = None) -> Row:
        """The row of a test, and of a quantity where there are several; KeyError if there is none."""
        for row in self.rows:
            if row.test == test and quantity in (None, row.quantity):
                return row
        raise KeyError(f"no row of {test!r}{'' if quantity is None else f' and {quantity!r}'}")

    def summary(self) -> str:
        """The finding in plain text: the sentence, one line a test, and what follows."""
        lines = [self.sentence, *(f"  {line}" for line in rows_said(self.rows))]
        lines += [f"  {line}" for line in poses_said(self.broken)]
        lines += [f"  left out: {m.section}: {m.reason}" for m in self.missing]
        return "\n".join([*lines, "", *(f"- {line}" for line in self.advice)])

    def markdown(self) -> str:
        """The report as Markdown."""
        rows = [[r.test, r.quantity, *cells(r), r.outcome] for r in self.rows]
        parts = [
            f"## {_SIGNS[self.verdict]} Audit of {escaped(str(self.calculator))}",
            f"**{escaped(self.sentence)}**",
            "\n".join(f"- {line}" for line in self.advice),
            table(["test", "quantity", "mean error", "relative", "worst", "floor", "outcome"], rows),
        ]
        if self.broken:
            parts += ["### Poses without a result", "\n".join(f"- {line}" for line in poses_said(self.broken))]
        if self.missing:
            parts += ["### Left out", "\n".join(f"- {escaped(m.section)}: {escaped(m.reason)}" for m in self.missing)]
        return "\n\n".join(parts) + "\n"

    def junit(self, checks: Sequence[Check] = ()) -> str:
        """JUnit's XML, one test case a row and one a check.

        A row fails if its outcome is "fails"; so does a pose without a finite result.
        """
        cases = [Check(f"{r.test}, {r.quantity}", r.outcome != "fails", row_said(r)) for r in self.rows]
        cases += [Check(f"{pose.test}, {pose.move or 'pose'}", False, pose_said(pose)) for pose in self.broken]
        return suite(self.calculator, self.calculator, [*cases, *checks], self.total_seconds, self.sentence)

    def badge(self, path: FileName | None = None) -> str:
        """A badge with the verdict, and how many tests fail."""
        state, _, words = _BADGES[self.verdict]
        failing = len({r.test for r in self.rows if r.outcome == "fails"})
        count = len({r.test for r in self.rows})
        said = f"fails {failing} of {count} tests" if failing else words[0].lower() + words[1:]
        return badge_text(path, "potential", said, state)

    def html(self) -> str:
        """The page; it loads nothing."""
        return (
            environment()
            .get_template("atoms.html.jinja")
            .render(
                report=self,
                badge=_BADGES[self.verdict],
                badges=_BADGES,
                poses=poses_said(self.broken),
                rows=[(r, cells(r)) for r in self.rows],
                version=self.versions.get("equitangents", ""),
                number=digits,
                colours=COLOURS,
            )
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the finding and every row."""
        head = notebook.table("Audit", [("verdict", self.verdict), ("finding", self.sentence)])
        return head + notebook.table("Tests", [(f"{r.test}, {r.quantity}", row_said(r)) for r in self.rows])


def cells(r: Row) -> list[str]:
    """Error with interval, relative, worst and floor in words."""
    relative = "–" if r.relative is None else number(r.relative.mean)
    return [with_unit(r.error, r.unit), relative, digits(r.worst), digits(r.floor)]
