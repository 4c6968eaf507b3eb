"""The forms of a report, whatever it is of: text, JSON, Markdown, JUnit's XML, a badge, one HTML page.

JUnit's XML has one test case an output and one a demand. A badge for a README is a flat SVG that needs nothing else, or
the JSON that shields.io's endpoint badges read.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape, quoteattr

from equitangents._types import FileName
from equitangents._version import __version__
from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import plain
from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file

COLOURS = {"holds": "#2e7d32", "fails": "#c62828", "undecided": "#8a6d00"}
_ENDPOINT = {"holds": "brightgreen", "fails": "red", "undecided": "yellow"}
_NARROW, _WIDE = " .,:;|!'()[]/fijlrtI1", "mwMW%≤≥→"


def as_json(label: str, message: str, state: str) -> str:
    """The endpoint's object (schemaVersion 1)."""
    badge: dict[str, Any] = {"schemaVersion": 1, "label": label, "message": message, "color": _ENDPOINT[state]}
    return json.dumps(badge, ensure_ascii=False) + "\n"


def as_svg(label: str, message: str, state: str) -> str:
    """Two boxes side by side, 20 pixels high, as wide as their words."""
    left, right = _width(label), _width(message)
    texts = "".join(
        f'<text x="{x:g}" y="14" textLength="{width - 10:g}" lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
        for x, width, words in ((left / 2, left, label), (left + right / 2, right, message))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right:g}" height="20" role="img" '
        f"aria-label={quoteattr(f'{label}: {message}')}><title>{escape(f'{label}: {message}')}</title>"
        f'<clipPath id="r"><rect width="{left + right:g}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left:g}" height="20" fill="#444"/>'
        f'<rect x="{left:g}" width="{right:g}" height="20" fill="{COLOURS[state]}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">'
        f"{texts}</g></svg>\n"
    )


def badge_text(path: FileName | None, label: str, message: str, state: str) -> str:
    """JSON for a path that ends in .json, SVG for all others."""
    as_text = as_json if path is not None and Path(path).suffix.lower() == ".json" else as_svg
    return as_text(label, message, state)


def _width(words: str) -> float:
    """Pixels of some words in Verdana of 11 pixels, about, and of the space around them."""
    return 10 + sum(4.0 if c in _NARROW else 9.5 if c in _WIDE else 6.9 for c in words)


_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML, even escaped


def suite(title: str, model: str, cases: Sequence[Check], seconds: float, finding: str) -> str:
    """The XML of one suite of cases; those that fail quote the finding."""
    root = Element(
        "testsuite",
        name=f"equitangents audit of {title}",
        tests=str(len(cases)),
        failures=str(sum(not case.passed for case in cases)),
        errors="0",
        skipped="0",
        time=f"{seconds:.3f}",
    )
    for case in cases:
        node = SubElement(root, "testcase", classname=f"equitangents.audit.{model}", name=case.name)
        if not case.passed:
            SubElement(node, "failure", message=case.value).text = finding
    text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text, columns side by side."""
    table = [[" ".join(cell.split()) for cell in line] for line in (head, *rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*table, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)
    return "\n".join(lines)


_WIDEST = 36
_ACTIVE = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is one


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: header, rule, and one line a row; cells are escaped."""
    line = lambda cells: f"| {' | '.join(map(escaped, cells))} |"
    return "\n".join([line(head), f"|{'---|' * len(head)}", *map(line, rows)])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line: names of models, files and rows may hold anything."""
    return escape(_ACTIVE.sub(r"\\\g<0>", " ".join(text.splitlines())))


class WrittenReport(ABC):
    """A report that can be written down; its own class says what each form holds."""

    @property
    @abstractmethod
    def first_line(self) -> str:
        """The finding in one line."""

    @abstractmethod
    def markdown(self) -> str:
        """The report as Markdown that GitHub renders."""

    @abstractmethod
    def junit(self, checks: Sequence[Check] = ()) -> str:
        """The report as JUnit's XML, with one more test case for each check."""

    @abstractmethod
    def badge(self, path: FileName | None = None) -> str:
        """A badge as SVG, or as JSON if `path` ends in .json."""

    @abstractmethod
    def html(self) -> str:
        """The report as one HTML page that loads nothing."""

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, as plain values; numbers that are not finite are None."""
        return plain(self)

    def to_json(self, path: FileName) -> Path:
        """Write the report as JSON. Returns the path."""
        return write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def to_markdown(self, path: FileName | None = None) -> str:
        """The report as Markdown that GitHub renders, also written to `path` if one is given."""
        return also_written(path, self.markdown())

    def to_junit(self, path: FileName | None = None, checks: Sequence[Check] = ()) -> str:
        """The report as JUnit's XML, one test case a finding and one a check, also written to `path` if given."""
        return also_written(path, self.junit(checks))

    def to_badge(self, path: FileName | None = None) -> str:
        """A badge with the verdict as SVG, or as the JSON of shields.io's endpoints if `path` ends in .json.

        Also written to `path` if one is given.
        """
        return also_written(path, self.badge(path))

    def to_html(self, path: FileName) -> Path:
        """Write the report as one HTML file that needs nothing else. Returns the path."""
        return write_text(path, self.html())

    def __repr__(self) -> str:
        return f"<audit: {self.first_line}>"


def versions(*libraries: str) -> dict[str, str]:
    """Versions of what took part; libraries that are not installed as packages are left out."""
    found = {"equitangents": __version__, "python": platform.python_version()}
    for library in libraries:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library)
    return found


def also_written(path: FileName | None, text: str) -> str:
    """The text, written to `path` too if one is given."""
    if path is not None:
        write_text(path, text)
    return text


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
