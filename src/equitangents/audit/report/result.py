"""The report of an audit: what was found, as the object of its JSON, the ways to write it down, and what to cite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equitangents._types import AnyModel
from equitangents.audit.report.checks import Check
from equitangents.audit.report.forms import Content, WrittenReport
from equitangents.audit.report.numbers import interval, listed
from equitangents.audit.report.page import sections
from equitangents.audit.report.rows import first_line, table
from equitangents.audit.report.sections import AVERAGING, Findings
from equitangents.errors import InvalidArgumentError

FORMAT: Literal["equitangents.audit/3"] = "equitangents.audit/3"


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(WrittenReport, Findings):
    """Everything that an audit found; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    Lists and numbers of the JSON are the attributes, under the same names. `errors` holds the table behind them,
    one row an element, one column an input, and is not written.
    """

    @property
    def first_line(self) -> str:
        """Verdict, error with its interval, noise floor and group, in at most 120 characters."""
        return first_line(self)

    def content(self) -> Content:
        """Its tables, test cases and page: one case an output, and one a set off the data that fails."""
        value = lambda o: f"{interval(o.judged)} {self.unit_of(o)}, {listed(o.fails_under)}"
        cases = [Check(f"{o.name} ({o.action})", not o.fails_under, value(o)) for o in self.contract.outputs]
        if self.verdict == "equivariant on its data":
            off = [s for s in self.sets[1:] if s.above]
            cases += [Check(f"off the data, {s.name}", False, f"{interval(s.judged)} {self.unit}") for s in off]
        return Content(
            title="Equivariance audit",
            name=self.model.name,
            tables=[table(self)],
            cases=cases,
            sections=lambda: sections(self),
        )

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
                raise InvalidArgumentError("remedy", name, "one that is offered", part.reason)
        return self.averaged()


ENSEMBLES = "Gerken and Kessel, Emergent Equivariance in Deep Ensembles, ICML 2024, arXiv:2403.03103"
BOOTSTRAP = "Owen, The Pigeonhole Bootstrap, Annals of Applied Statistics 1(2):386-411, 2007"
SPLINES = "Unser, Splines: A Perfect Fit for Signal and Image Processing, IEEE Signal Processing Magazine 16(6), 1999"
PROCRUSTES = "Schönemann, A Generalized Solution of the Orthogonal Procrustes Problem, Psychometrika 31(1):1-10, 1966"


def cited(report: Findings) -> list[str]:
    """What to cite for an audit that had these parts; the measures themselves first."""
    contract = report.contract
    needed = {
        ENSEMBLES: True,
        BOOTSTRAP: not contract.complete,
        SPLINES: not all(i.exact for i in contract.inputs),
        PROCRUSTES: report.layers is not None,
    }
    return [entry for entry, wanted in needed.items() if wanted]
