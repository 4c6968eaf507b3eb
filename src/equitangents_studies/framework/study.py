"""A study: settings, a measurement, claims about it, figures and tables.

With `framework.claims` and `framework.drawing` it has all that a study needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from equitangents.report import Figure, Table
from equitangents_studies.claim import Claim
from equitangents_studies.framework.folder import RunFolder, Stage
from equitangents_studies.framework.progress import Task
from equitangents_studies.framework.settings import at_least, check, check_some, presets
from equitangents_studies.framework.stage_files import Arrays

__all__ = [
    "Arrays", "Present", "RunFolder", "Shown", "Stage", "Study", "Task", "at_least", "check",
    "check_some", "presets",
]  # fmt: skip

SettingsT = TypeVar("SettingsT")
ResultsT = TypeVar("ResultsT")


Shown = Figure | Table
"""What a page shows. The first figure is the one that the source shows, and stands above the claims."""


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
    claims: Callable[[SettingsT, ResultsT], Sequence[Claim]]
    citations: tuple[str, ...]
    check: Callable[[SettingsT, Path | None], None] = lambda settings, data_dir: None


Present = Callable[[Any, Any, RunFolder], Sequence[Shown]]
