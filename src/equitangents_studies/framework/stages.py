"""Stages of a run: its parts that are kept on disk each, alone, or several that depend on none of each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from equitangents_studies.framework.progress import Task

Arrays = dict[str, np.ndarray]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Stage:
    """The arrays of `compute(task)`, kept under `name`; `title` is what readers see of it."""

    name: str
    title: str
    compute: Callable[[Task], Arrays]


@runtime_checkable
class Stages(Protocol):
    """What a measurement needs of the folder of its run."""

    @property
    def data_dir(self) -> Path | None:
        """Where data files are."""

    def stage(self, name: str, title: str, compute: Callable[[Task], Arrays]) -> Arrays:
        """The arrays of `compute(task)`, kept under `name`."""

    def stages(self, work: Mapping[Key, Stage]) -> dict[Key, Arrays]:
        """The arrays of stages that depend on none of each other, in any order."""
