"""Parts of a run: the same measurement several times in one folder, each with stages of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from equitangents.studies.framework.folder import Arrays
from equitangents.studies.framework.progress import Task


@runtime_checkable
class Stages(Protocol):
    """What a measurement needs of the folder of its run."""

    @property
    def data_dir(self) -> Path | None:
        """Where data files are."""

    def stage(self, name: str, title: str, compute: Callable[[Task], Arrays]) -> Arrays:
        """The arrays of `compute(task)`, kept under `name`."""


@dataclass(frozen=True)
class Part:
    """Stages of `folder` whose names begin with `prefix`, and titles with `title`."""

    folder: Stages
    prefix: str
    title: str

    @property
    def data_dir(self) -> Path | None:
        """That of the folder."""
        return self.folder.data_dir

    def stage(self, name: str, title: str, compute: Callable[[Task], Arrays]) -> Arrays:
        """The stage `prefix-name` of the folder."""
        return self.folder.stage(f"{self.prefix}-{name}", f"{self.title}: {title}", compute)
