"""The ways to write a report down, whatever it is of: JSON, Markdown, JUnit's XML, a badge, one HTML page."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equitangents._types import FileName
from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import plain
from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file


class WrittenReport(ABC):
    """A report that can be written down; its own class says what each form holds."""

    sentence: str

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
        return f"<audit: {self.sentence}>"


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
