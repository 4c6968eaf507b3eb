"""The report of an audit: what was found, and the ways to write it down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equitangents import notebook
from equitangents._types import FileName
from equitangents.audit.report.badge import badge_text
from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.judged import error_of, floor_of, headline_of, unit_of
from equitangents.audit.report.junit import junit
from equitangents.audit.report.markdown import markdown
from equitangents.audit.report.page import html
from equitangents.audit.report.text import summary
from equitangents.audit.report.words import badge, number
from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(Findings):
    """Everything that an audit found; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    The attributes are those of `Findings`.
    """

    def summary(self) -> str:
        """The finding in a few lines of plain text, the one sentence first."""
        return summary(self)

    def to_json(self, path: FileName) -> Path:
        """Write the report as JSON; `equitangents.audit.report.schema()` says what it holds. Returns the path."""
        return write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def to_markdown(self, path: FileName | None = None) -> str:
        """The report as Markdown that GitHub renders, also written to `path` if one is given."""
        text = markdown(self)
        if path is not None:
            write_text(path, text)
        return text

    def remedy(self, name: str, path: FileName | None = None, form: str | None = None) -> Any:
        """The model with a remedy, in the form that it has itself.

        "average": its mean over the group, one evaluation for every element. "canonicalise": the model of inputs in a
        canonical position, one evaluation. Both are equivariant to rounding where the group moves inputs exactly; of
        resampled inputs as far as interpolation allows. Groups of infinitely many elements, and means of class
        numbers: InvalidArgumentError.

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
        return self.averaged(name, path, form)

    def to_junit(self, path: FileName | None = None, checks: Sequence[Check] = ()) -> str:
        """The report as JUnit's XML, one test case an output and one a check, also written to `path` if given."""
        text = junit(self, checks)
        if path is not None:
            write_text(path, text)
        return text

    def to_badge(self, path: FileName | None = None) -> str:
        """A badge with the verdict as SVG, or as the JSON of shields.io's endpoints if `path` ends in .json.

        Also written to `path` if one is given.
        """
        headline = headline_of(self)
        state, _, words = badge(self.verdict, headline)
        moving = any(o.action != "invariant" for o in self.contract.outputs)
        label = f"{self.contract.group} {'equivariance' if moving else 'invariance'}"
        text = badge_text(path, label, words[0].lower() + words[1:], state)
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: FileName) -> Path:
        """Write the report as one HTML file that needs nothing else. Returns the path."""
        return write_text(path, html(self))

    def _repr_html_(self) -> str:
        """What a notebook shows: the finding, and the error under every element."""
        head = notebook.table("Audit", [("verdict", self.verdict), ("finding", self.sentence)])
        rows = [
            (e.label, f"{number(error_of(e).estimate.mean)}, floor {number(floor_of(e))}") for e in self.elements[:24]
        ]
        more = [("…", f"{len(self.elements) - 24} more elements")] if len(self.elements) > 24 else []
        return head + notebook.table(f"Mean relative error {unit_of(self)}", rows + more)

    def bibtex(self) -> str:
        """What to cite, as BibTeX."""
        return "\n\n".join(self.citations) + "\n"

    def __repr__(self) -> str:
        return f"<audit: {self.sentence}>"


def write_text(path: FileName, text: str) -> Path:
    """Write a file, or raise InvalidArgumentError that names `path`."""
    path = Path(path)
    try:
        path.parent.resolve(strict=True)  # folders are not made
        with whole_file(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(f"path is {str(path)!r}, which cannot be written: {error.strerror}") from None
    return path
