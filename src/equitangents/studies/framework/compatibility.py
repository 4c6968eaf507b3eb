"""For studies that are not converted to `claim` and to pages of their own yet; goes when the last one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from equitangents.report.page import Section
from equitangents.report.verdict import FAILS, HOLDS, UNDECIDED, Verdict
from equitangents.studies.framework.claims import judge
from equitangents.studies.framework.folder import Columns
from equitangents.studies.framework.study import ResultsT, SettingsT

__all__ = ["Presentation", "Study", "judge", "say"]


@dataclass(frozen=True)
class Presentation:
    """As before: with a summary, which is not shown any more."""

    summary: str
    tables: Mapping[str, Columns]
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)


class Study(Generic[SettingsT, ResultsT]):
    """As before: with its page's `present`, which is given the verdicts."""

    def __init__(self, presets: Any, measure: Any, claims: Any, present: Any, citations: tuple[str, ...]) -> None:
        self.presets, self.measure, self.claims, self.citations = presets, measure, claims, citations
        self.present: Callable[..., Any] = lambda settings, results, folder: present(
            settings, results, claims(settings, results), folder
        )

    def check(self, settings: Any, data_dir: Any) -> None:
        """Nothing is checked ahead."""


def say(verdict: Verdict, *, holds: str, fails: str, undecided: str) -> str:
    """The wording that belongs to the verdict."""
    return {HOLDS: holds, FAILS: fails, UNDECIDED: undecided}[verdict.verdict]
