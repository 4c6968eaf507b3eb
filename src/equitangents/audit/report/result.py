"""The report of an audit: what was found, and the ways to write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equitangents import notebook
from equitangents._types import AnyModel, FileName
from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.page import html
from equitangents.audit.report.part_sections import REMEDIES
from equitangents.audit.report.text import markdown, summary
from equitangents.audit.report.words import badge, number
from equitangents.audit.report.written import WrittenReport, badge_text, junit
from equitangents.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(WrittenReport, Findings):
    """Everything that an audit found; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    The attributes are those of `Findings`.
    """

    def summary(self) -> str:
        """The finding in a few lines of plain text, the one sentence first."""
        return summary(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        return markdown(self)

    def junit(self, checks: Sequence[Check] = ()) -> str:
        """JUnit's XML, one test case an output and one a check."""
        return junit(self, checks)

    def badge(self, path: FileName | None = None) -> str:
        """A badge with the verdict, and the error that it goes by."""
        state, _, words = badge(self.verdict, self.shown, self.sets)
        moving = any(o.action != "invariant" for o in self.contract.outputs)
        label = f"{self.contract.group} {'equivariance' if moving else 'invariance'}"
        return badge_text(path, label, words[0].lower() + words[1:], state)

    def html(self) -> str:
        """The page; it loads nothing."""
        return html(self)

    def remedy(self, name: str, path: FileName | None = None, form: str | None = None) -> AnyModel:
        """The model with a remedy, in the form that it has itself.

        "average": its mean over the group, one evaluation for every element. "canonicalise": the model of inputs in a
        canonical position, one evaluation. Both are equivariant to rounding where the group moves inputs exactly; of
        resampled inputs as far as interpolation allows. Groups of infinitely many elements, and means of class
        numbers, and remedies after which outputs are the same for all inputs: InvalidArgumentError.

        Args:
            name: "average" or "canonicalise".
            path: of a model from an ONNX file, where an ONNX file with the averaging inside is written.
            form: "function", a function of a batch in NumPy; "module", a PyTorch module around the model's own; "onnx".
                None: a module of PyTorch modules, a file if `path` is given, else a function.

        Returns:
            The function or module; of ONNX the path.
        """
        if not self.contract.law:
            raise InvalidArgumentError("transforms form no group; remedies are for groups")
        if self.averaged is None:
            raise InvalidArgumentError("the report has no model: it was not made by an audit in this process")
        called = REMEDIES.get({"canonicalize": "canonicalise"}.get(name, name))
        for part in self.missing:
            if part.section == called:
                raise InvalidArgumentError(f"remedy is {name!r}, which is not offered: {part.reason}")
        return self.averaged(name, path, form)

    def _repr_html_(self) -> str:
        """What a notebook shows: the finding, and the error under every element."""
        head = notebook.table("Audit", [("verdict", self.verdict), ("finding", self.sentence)])
        rows = [
            (e.label, f"{number(e.shown.estimate.mean)}, floor {number(e.shown_floor)}") for e in self.elements[:24]
        ]
        more = [("…", f"{len(self.elements) - 24} more elements")] if len(self.elements) > 24 else []
        return head + notebook.table(f"Mean relative error {self.unit_said}", rows + more)

    def bibtex(self) -> str:
        """What to cite, as BibTeX."""
        return "\n\n".join(self.citations) + "\n"
