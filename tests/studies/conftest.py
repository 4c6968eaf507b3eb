"""Studies in miniature that several tests look at, each run once a process."""

from __future__ import annotations

import pytest

from studies.miniatures import run


@pytest.fixture(scope="session")
def finished_miniature(tmp_path_factory):
    """Of the name of a study, its finished miniature; tests leave the folder as it is."""
    finished = {}

    def of(name):
        if name not in finished:
            finished[name] = run(name, tmp_path_factory.mktemp(name) / "run")
        return finished[name]

    return of
