"""Object stores for tests: one in memory, and a server of S3 on this machine."""

from __future__ import annotations

import pytest
from buckets import Bucket

from equitangents.scale import place


@pytest.fixture
def bucket(monkeypatch):
    """What s3://bucket is, in memory."""
    made = Bucket()
    monkeypatch.setattr(place, "bucket", lambda root: made)
    return made


@pytest.fixture
def s3():
    """The server of s3://bucket."""
    from s3 import server

    with server() as running:
        yield running
