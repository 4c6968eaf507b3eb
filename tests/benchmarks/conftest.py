"""Benchmarks are no part of the package: tests import them from the root of the repository."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
