"""The report of an audit: what was found, and the ways to write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equitangents import notebook
from equitangents._types import AnyModel, FileName
from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.forms import WrittenReport, badge_text, escaped, markdown_table, suite, text_table
from equitangents.audit.report.numbers import folded, interval, listed, number
from equitangents.audit.report.page import html
from equitangents.audit.report.part_sections import AVERAGING
from equitangents.audit.report.rows import HEAD, STATES, first_line, rows
from equitangents.errors import InvalidArgumentError

_ELEMENTS = 16
_SIGNS = {"holds": "✅", "fails": "❌", "undecided": "❔"}


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(WrittenReport, Findings):
    """Everything that an audit found; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    The attributes are those of `Findings`.
    """

    @property
    def first_line(self) -> str:
        """Verdict, error with its interval, noise floor and group, in at most 120 characters."""
        return first_line(self)

    def summary(self) -> str:
        """The first line, and the table of all that a reader acts on."""
        return f"{self.first_line}\n{text_table(HEAD, [row.cells for row in rows(self)])}"

    def markdown(self) -> str:
        """The first line, then the table, and tables of elements and layers."""
        worst = sorted(self.elements, key=lambda e: -e.shown.estimate.mean)[:_ELEMENTS]
        shape = lambda e: [interval(e.shown.estimate), number(e.shown.median), number(e.shown.worst)]
        elements = [[folded(e.label), *shape(e), number(e.shown_floor), "above" * bool(e.above)] for e in worst]
        parts = [
            f"## {_SIGNS[STATES[self.verdict]]} Equivariance audit: {escaped(self.model.name)}",
            f"**{escaped(self.first_line)}**",
            markdown_table(HEAD, [row.cells for row in rows(self)]),
            f"### Elements, the worst first, errors {self.unit}",
            markdown_table(["element", "mean error", "median", "worst", "noise floor", ""], elements),
        ]
        if self.layers is not None:
            cells = lambda r: [folded(r.name), r.kind, number(r.error), number(r.floor), "breaks" * r.broken]
            layers = [cells(r) for r in self.layers.layers]
            parts += ["### Layers", markdown_table(["layer", "kind", "error", "noise floor", ""], layers)]
        return "\n\n".join(parts) + "\n"

    def junit(self, checks: Sequence[Check] = ()) -> str:
        """JUnit's XML, one test case an output, one a set off the data, and one a check."""
        cases = [
            Check(
                f"{o.name} ({o.action})",
                not o.fails_under,
                f"{interval(o.shown)} {self.unit_of(o)}, {listed(o.fails_under)}",
            )
            for o in self.contract.outputs
        ]
        if self.verdict == "equivariant on its data":
            off = [s for s in self.sets[1:] if s.above]
            cases += [Check(f"off the data, {s.name}", False, f"{interval(s.shown)} {self.unit}") for s in off]
        title = f"{self.model.name} under {self.contract.group}"
        return suite(title, self.model.name, [*cases, *checks], self.timing.total_seconds, self.summary())

    def badge(self, path: FileName | None = None) -> str:
        """A badge with the group, the verdict, and the error that it goes by."""
        message = f"{self.verdict}, {number(self.shown.error.estimate.mean)}"
        return badge_text(path, self.contract.group, message, STATES[self.verdict])

    def html(self) -> str:
        """The page; it loads nothing."""
        return html(self)

    def remedy(self, name: str = "average") -> AnyModel:
        """The model averaged over the group, f̄(x) = mean over g of ρ_Y(g)⁻¹ f(ρ_X(g) x), a function of a batch.

        One evaluation for every element. Equivariant to rounding where the group moves inputs exactly; of resampled
        inputs as far as interpolation allows. Groups of infinitely many elements, means of class numbers, and outputs
        that would be the same for all inputs: InvalidArgumentError.

        Args:
            name: "average".
        """
        if name != "average":
            raise InvalidArgumentError("name", name, "'average'")
        if not self.contract.law:
            raise InvalidArgumentError("transforms form no group; remedies are for groups")
        if self.averaged is None:
            raise InvalidArgumentError("the report has no model: it was not made by an audit in this process")
        for part in self.missing:
            if part.section == AVERAGING:
                raise InvalidArgumentError(f"remedy is {name!r}, which is not offered: {part.reason}")
        return self.averaged()

    def _repr_html_(self) -> str:
        """What a notebook shows: the first line, the table, and the error under every element."""
        line = lambda row: " ".join(filter(None, row.cells[1:]))
        elements = [
            (e.label, f"{interval(e.shown.estimate)}, noise floor {number(e.shown_floor)}") for e in self.elements
        ]
        head = notebook.table(self.first_line, [(row.label, line(row)) for row in rows(self)])
        return head + notebook.table(f"Elements, errors {self.unit}", elements[: 2 * _ELEMENTS])

    def bibtex(self) -> str:
        """What to cite, as BibTeX."""
        return "\n\n".join(self.citations) + "\n"
