"""A finished run, and a repository into which it is published."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from equitangents import studies
from studies.published.drawn import INFO, NAME, Drawn


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of a moment; of the studies that come with the package test_study_folders.py publishes miniatures."""
    made = Drawn()
    studies.add(INFO, made.study(), made.present)
    try:
        return studies.run(NAME, out=tmp_path_factory.mktemp(NAME) / "run", settings={"members": "7"}, progress=False)
    finally:
        del studies.registry[NAME]


@pytest.fixture
def registered(monkeypatch):
    """The study is in the registry while a test runs."""
    monkeypatch.setitem(studies.registry, NAME, INFO)


@pytest.fixture
def root(registered, tmp_path):
    """A repository with nothing but what the command changes."""
    made = tmp_path / "repository"
    (made / "docs" / "results").mkdir(parents=True)
    (made / "paper").mkdir()
    for name in ("README.md", "paper/paper.md"):
        (made / name).write_text("by hand\n")
    marks = ("lead", "counted", "runs", "unmet")
    (made / "docs" / "results" / "index.md").write_text("".join(f"<!-- {mark} --><!-- -->\n" for mark in marks))
    return made


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run that a test may change."""
    return Path(shutil.copytree(finished.folder, tmp_path / "run"))
