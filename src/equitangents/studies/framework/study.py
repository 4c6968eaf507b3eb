"""What a study is: settings, a measurement, claims about it, and a way to show both. Each lives in one module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from equitangents.report.page import Section
from equitangents.report.verdict import Verdict
from equitangents.studies.framework.folder import Columns, RunFolder

SettingsT = TypeVar("SettingsT")
ResultsT = TypeVar("ResultsT")


@dataclass(frozen=True)
class Presentation:
    """A study's results for readers: a sentence, tables for `results/`, sections of the page, a few facts."""

    summary: str
    tables: Mapping[str, Columns]
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study(Generic[SettingsT, ResultsT]):
    """A study as the runner sees it.

    `measure` computes, in resumable stages; `claims` compares the numbers with what the source states; `present` draws.
    `claims` and `present` are quick and depend on their arguments alone.
    """

    presets: Mapping[str, SettingsT]
    measure: Callable[[SettingsT, RunFolder], ResultsT]
    claims: Callable[[SettingsT, ResultsT], Sequence[Verdict]]
    present: Callable[[SettingsT, ResultsT, Sequence[Verdict], RunFolder], Presentation]
    citations: tuple[str, ...]
