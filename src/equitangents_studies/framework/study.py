"""What a study is: settings, a measurement and claims about it; and what its page makes of them.

With `framework.claims` it has all that `study.py` of a study needs, as `framework.page` has for its page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from equitangents.report import Section
from equitangents_studies.framework.folder import Columns, RunFolder
from equitangents_studies.framework.progress import Task
from equitangents_studies.framework.settings import at_least, check, check_some, presets
from equitangents_studies.framework.stages import Arrays, Stage
from equitangents_studies.verdict import Verdict

__all__ = [
    "Arrays", "Present", "Presentation", "RunFolder", "Stage", "Study", "Task", "at_least", "check", "check_some",
    "presets",
]  # fmt: skip

SettingsT = TypeVar("SettingsT")
ResultsT = TypeVar("ResultsT")


@dataclass(frozen=True)
class Presentation:
    """A study's results for readers: tables for `results/`, sections of the page, a few facts.

    `finding` is the page's title: what was found, from the results, without a word on what holds or fails; `sentence`
    sets our number beside the source's. Without them the page has the study's title, and its first sentence follows
    from the claims. The first figure of the first section is the one that the source shows.
    """

    tables: Mapping[str, Columns]
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)
    finding: str = ""
    sentence: str = ""


@dataclass(frozen=True)
class Study(Generic[SettingsT, ResultsT]):
    """A study as the runner sees it.

    `check` raises InvalidArgumentError for settings or data (in the folder of data, if there is one) that cannot be
    used, before anything is written. `measure` computes, in resumable stages; `claims` compares the numbers with what
    the source states. `claims` is quick and depends on its arguments alone, like `present(settings, results, folder)`
    of the study's page.
    """

    presets: Mapping[str, SettingsT]
    measure: Callable[[SettingsT, RunFolder], ResultsT]
    claims: Callable[[SettingsT, ResultsT], Sequence[Verdict]]
    citations: tuple[str, ...]
    check: Callable[[SettingsT, Path | None], None] = lambda settings, data_dir: None


Present = Callable[[Any, Any, RunFolder], Presentation]
