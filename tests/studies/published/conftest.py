"""A finished run, and a repository into which it is published."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools.results import overview

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
    (made / "docs").mkdir(parents=True)
    (made / "paper").mkdir()
    marked = {"README.md": overview._README, "docs/gallery.md": overview._GALLERY, "paper/paper.md": overview._PAPER}
    for name, marks in marked.items():
        (made / name).write_text(f"before\n\n{marks[0]}\n\n{marks[1]}\n\nafter\n")
    (made / "mkdocs.yml").write_text("nav:\n{}\n{}\n  - Last: last.md\n".format(*overview._MENU))
    return made


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run that a test may change."""
    return Path(shutil.copytree(finished.folder, tmp_path / "run"))
