"""Output formats of a report: text, JSON, Markdown, JUnit XML, one HTML page."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

import numpy as np

from equitangents._types import FileName
from equitangents.audit.report.checks import Check
from equitangents.audit.report.numbers import folded
from equitangents.errors import InvalidArgumentError
from equitangents.files import atomic_file
from equitangents.report.render import Document, Section, Table


def plain(value: Any) -> Any:
    """Records, mappings, lists and arrays as plain values for JSON; numbers that are not finite are None."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("json", True)}
    if isinstance(value, dict):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML, even escaped


def text_table(table: Table) -> str:
    """A table as text, columns side by side."""
    lines = [[" ".join(cell.split()) for cell in line] for line in (table.header, *table.rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


_WIDEST = 36
_ACTIVE = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is one


def markdown_table(table: Table) -> str:
    """A table in Markdown: header, rule, and one line a row; cells are escaped."""
    line = lambda cells: " | ".join(["", *map(escaped, cells), ""]).strip()
    return "\n".join([line(table.header), "|---" * len(table.header) + "|", *map(line, table.rows)])


def escaped(text: str) -> str:
    """Text escaped for Markdown, on one line; names of models, files and rows may hold anything."""
    return escape(_ACTIVE.sub(r"\\\g<0>", " ".join(text.splitlines())))


State = Literal["holds", "fails", "undecided"]
_HOLDS = ("equivariant", "equivariant within tolerance", "holds", "within tolerance")
_SIGNS: dict[State, str] = {"holds": "✅", "fails": "❌", "undecided": "❔"}


@dataclass(frozen=True)
class Content:
    """The content of a report after its first line."""

    title: str
    """What kind of report it is."""
    name: str
    """Name of the model."""
    tables: list[Table]
    """Tables of the summary, the main one first."""
    cases: list[Check]
    """The test cases of JUnit's XML."""
    sections: Callable[[], list[Section]]
    """Makes the sections of the page."""


class WrittenReport(ABC):
    """A report with a first line, tables, test cases and sections, the same in every format."""

    verdict: Any

    @property
    def state(self) -> State:
        """The verdict in one of three states."""
        return "holds" if self.verdict in _HOLDS else "fails" if self.verdict in ("broken", "fails") else "undecided"

    @property
    @abstractmethod
    def first_line(self) -> str:
        """The finding in one line."""

    @abstractmethod
    def content(self) -> Content:
        """What all forms show."""

    def summary(self) -> str:
        """The first line, and the tables of all that a reader acts on."""
        content = self.content()
        first, *others = map(text_table, content.tables)
        return "\n\n".join(["\n".join((self.first_line, first)), *others])

    def html(self) -> str:
        """The report as one HTML page that loads nothing."""
        content = self.content()
        name, badge = folded(content.name), (self.state, str(self.verdict))
        return Document(name, content.title, self.first_line, content.sections(), badge=badge, cards=False).html()

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, as plain values; numbers that are not finite are None."""
        return plain(self)

    def to_json(self, path: FileName) -> Path:
        """Write the report as JSON. Returns the path."""
        return write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def to_markdown(self, path: FileName | None = None) -> str:
        """The report as Markdown that GitHub renders, also written to `path` if one is given."""
        content = self.content()
        head = f"## {_SIGNS[self.state]} {content.title}: {escaped(content.name)}"
        parts = [head, f"**{escaped(self.first_line)}**"]
        for table in content.tables:
            parts += ["### " + table.caption] * bool(table.caption) + [markdown_table(table)]
        return _also_written(path, "\n\n".join(parts) + "\n")

    def to_junit(self, path: FileName | None = None, checks: Sequence[Check] = ()) -> str:
        """JUnit's XML, one test case a finding and one a check; those that fail quote the summary.

        Also written to `path` if one is given.
        """
        content = self.content()
        cases, failed = [*content.cases, *checks], []
        suite = Element("testsuite", name=f"equitangents audit of {content.name}", tests=str(len(cases)))
        for case in cases:
            node = SubElement(suite, "testcase", classname=f"equitangents.audit.{content.name}", name=case.name)
            if not case.passed:
                failed.append(SubElement(node, "failure", message=case.value))
        for node in failed:
            node.text = self.summary()
        suite.set("failures", str(len(failed)))
        text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", tostring(suite, encoding="unicode"))
        return _also_written(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n')

    def to_html(self, path: FileName) -> Path:
        """Write the report as one HTML file that needs nothing else. Returns the path."""
        return write_text(path, self.html())

    def __repr__(self) -> str:
        return f"<audit: {self.first_line}>"


def settings_section(settings: Mapping[str, object]) -> Section:
    """How the audit was made, by names and values."""
    rows = [[name, str(value)] for name, value in settings.items()]
    return Section("Settings", shown=[Table("", ["setting", "value"], rows, text=True)])


def _also_written(path: FileName | None, text: str) -> str:
    """The text, written to `path` too if one is given."""
    if path is not None:
        write_text(path, text)
    return text


def write_text(path: FileName, text: str) -> Path:
    """Write a file, or raise InvalidArgumentError that names `path`."""
    path = Path(path)
    try:
        path.parent.resolve(strict=True)  # folders are not made
        with atomic_file(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError("path", str(path), "a file that can be written", error.strerror or "") from None
    return path
