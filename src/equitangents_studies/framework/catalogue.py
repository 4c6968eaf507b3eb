"""Registry of studies and of the works' figures, from `studies.toml`; citations of the works, from `works.bib`.

This module imports only the standard library.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equitangents_studies.framework.study import Present, Study

_KEPT = tomllib.loads(Path(__file__).with_name("studies.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class StudyInfo:
    """Entry of a study in `equitangents list`, and the module that holds its `STUDY` and `present`."""

    name: str
    title: str
    source: str
    presets: tuple[str, ...]
    summary: str
    module: str


def _shipped(name: str, kept: dict[str, Any]) -> StudyInfo:
    """A study that comes with the package."""
    module = f"equitangents_studies.{kept.get('module', name.replace('-', '_'))}"
    presets, source = tuple(kept.get("presets", ("quick", "desk", "paper"))), _KEPT["source"][kept["source"]]
    return StudyInfo(name, kept["title"], source, presets, kept["summary"], module)


registry: dict[str, StudyInfo] = {name: _shipped(name, kept) for name, kept in _KEPT["study"].items()}

_added: dict[str, tuple[Any, Any]] = {}


def add(info: StudyInfo, study: Study[Any, Any], present: Present) -> None:
    """Register your own study, so that `run(info.name)` runs it.

    Example: `add(StudyInfo("coin", "A coin", "nobody", ("quick",), "Is it fair?", __name__), STUDY, present)`
    """
    registry[info.name] = info
    _added[info.name] = (study, present)


def load(info: StudyInfo) -> tuple[Study[Any, Any], Present]:
    """The study and its `present` function."""
    if info.name in _added:
        return _added[info.name]
    module = importlib.import_module(info.module)
    return module.STUDY, module.present


def lookup(name: str, preset: str) -> StudyInfo:
    """The study `name`; InvalidArgumentError, which suggests a similar name, for an unknown study or preset.

    >>> lookup("toi", "quick")
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: study is 'toi'; expected ...; did you mean 'toy'?
    """
    from equitangents.extending import unknown

    if name not in registry:
        raise unknown("study", name, registry)
    info = registry[name]
    if preset not in info.presets:
        raise unknown("preset", preset, info.presets)
    return info


@dataclass(frozen=True)
class WorkItem:
    """An `item` of a work, the arguments of `equitangents reproduce`, and the published `run` that shows it."""

    item: str
    command: str
    run: str


def _place(item: str, study: str, preset: str = "desk", more: str = "", run: str = "") -> WorkItem:
    return WorkItem(item, f"{study} --preset {preset} {more}".strip(), run or study)


PLACES: dict[str, tuple[WorkItem, ...]] = {
    work: tuple(_place(**kept) for kept in shown) for work, shown in _KEPT["shown"].items()
}
"""Figures, tables and theorems of each work, by its number on arXiv."""


def places(work: str) -> tuple[WorkItem, ...] | None:
    """Figures, tables and theorems of `work`, an arXiv number; None if `work` is not an arXiv number.

    Raises InvalidArgumentError for another work.
    """
    found = re.fullmatch(r"(?:arXiv[: ]?)?(\d{4}\.\d{4,5})", work, re.IGNORECASE)
    if found is not None and found[1] not in PLACES:
        from equitangents.errors import InvalidArgumentError

        raise InvalidArgumentError("study", work, [f"arXiv {known}" for known in PLACES])
    return None if found is None else PLACES[found[1]]


_ENTRIES = Path(__file__).with_name("works.bib").read_text(encoding="utf-8").strip().split("\n\n")
_NUMBERS = [f"arXiv {number}" for entry in _ENTRIES for number in re.findall(r"^ *eprint *= {(.*)},$", entry, re.M)]
BIBTEX = dict(zip(_NUMBERS, _ENTRIES, strict=True))
"""How each work is cited, by its place, "arXiv 2403.03103"."""

EMERGENT_EQUIVARIANCE = "arXiv 2403.03103"
BEYOND_THE_LIMIT = "arXiv 2410.01452"
EQUIVARIANT_KERNELS = "arXiv 2406.06504"
SYNERGY_AND_SYMMETRY = "arXiv 2207.04612"
OMNISCIENT_RISK = "arXiv 2110.03922"
