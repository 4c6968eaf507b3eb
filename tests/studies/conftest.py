"""Studies in miniature that several tests look at, each run once a process."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from equitangents import studies
from equitangents_studies.framework.catalogue import StudyInfo
from equitangents_studies.framework.progress import Task
from studies.miniatures import run
from studies.small import Small


@pytest.fixture
def small(monkeypatch):
    """A study of a moment, registered under two names."""
    made = Small()
    monkeypatch.setitem(sys.modules, "a_small_study", SimpleNamespace(STUDY=made.study(), present=made.present))
    for name in ("small", "other"):
        info = StudyInfo(name, "A small study", "nobody", ("quick",), "s", "a_small_study")
        monkeypatch.setitem(studies.registry, name, info)
    return made


@pytest.fixture(scope="session")
def finished_miniature(tmp_path_factory):
    """Of the name of a study, its finished miniature; tests leave the folder as it is."""
    finished, step = {}, Task.step

    def within(task, done, total):
        assert 0 <= done <= total, "progress is a share of all"
        step(task, done, total)

    def of(name):
        if name not in finished:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Task, "step", within)
                finished[name] = run(name, tmp_path_factory.mktemp(name) / "run")
        return finished[name]

    return of
