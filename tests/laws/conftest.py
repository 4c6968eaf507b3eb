"""Laws hold for every engine: `engine` makes one of them the default of a test."""

from __future__ import annotations

import pytest

from equitangents.kernels.engines import select


@pytest.fixture
def engine(request, monkeypatch):
    """Which engine networks without another wish run by: the fastest that can, or the reference engine."""
    if request.param == "reference":
        monkeypatch.setenv(select.VARIABLE, "reference")
    return request.param
