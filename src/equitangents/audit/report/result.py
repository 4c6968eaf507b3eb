"""The report of an audit: the object of its JSON, its output formats, and what to cite."""

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
    """The results of an audit; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    Its attributes are the entries of the JSON. `errors`, the table of errors by element (rows) and input (columns), is
    not written.
    """

    @property
    def first_line(self) -> str:
        """Verdict, error with its interval, noise floor and group, in at most 120 characters."""
        return first_line(self)

    def content(self) -> Content:
        """Tables, test cases and page: one case per output, and one per set off the data that fails."""
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

        One evaluation per element. Equivariant to rounding if the group moves inputs exactly, else up to interpolation.
        Raises InvalidArgumentError for infinite groups, class numbers, and outputs that would be equal for all inputs.

        Args:
            name: "average".
        """
        if name != "average":
            raise InvalidArgumentError("name", name, "'average'")
        if not self.contract.law:
            raise InvalidArgumentError("name", name, "a remedy for a group", "transforms form no group")
        if self.averaged is None:
            raise InvalidArgumentError("name", name, "a report with its model", "it was not made in this process")
        for part in self.missing:
            if part.section == AVERAGING:
                raise InvalidArgumentError("remedy", name, "one that is offered", part.reason)
        return self.averaged()


ENSEMBLES = "Gerken and Kessel, Emergent Equivariance in Deep Ensembles, ICML 2024, arXiv:2403.03103"
BOOTSTRAP = "Owen, The Pigeonhole Bootstrap, Annals of Applied Statistics 1(2):386-411, 2007"
SPLINES = "Unser, Splines: A Perfect Fit for Signal and Image Processing, IEEE Signal Processing Magazine 16(6), 1999"
PROCRUSTES = "Schönemann, A Generalized Solution of the Orthogonal Procrustes Problem, Psychometrika 31(1):1-10, 1966"


def cited(report: Findings) -> list[str]:
    """What to cite for an audit with these parts."""
    contract = report.contract
    needed = {
        ENSEMBLES: True,
        BOOTSTRAP: not contract.complete,
        SPLINES: not all(i.exact for i in contract.inputs),
        PROCRUSTES: report.layers is not None,
    }
    return [entry for entry, wanted in needed.items() if wanted]
