"""An object store that does not answer for a while is waited for; the clock is the test's own."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from equitangents.tiles import place

AT = place.ObjectPath("s3://bucket", "some/key")
CUT = "Generic S3 error: Error performing GET http://127.0.0.1 in 1s - HTTP error: error sending request"


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(place.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(place.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def out_until(monkeypatch, bucket, clock, end, said=CUT):
    """Every request fails until `end`."""
    for name in ("put", "get", "head", "list"):
        real = getattr(type(bucket), name)

        def asked(self, *args, real=real, **more):
            if clock[0] < end:
                raise GenericError(said)
            return real(self, *args, **more)

        monkeypatch.setattr(type(bucket), name, asked)


REQUESTS = {
    "put": lambda: AT.write_bytes(b"other"),
    "get": AT.read_bytes,
    "head": AT.size,
    "list": lambda: list(place.ObjectPath("s3://bucket", "some").sizes()),
    "put if": lambda: (AT / "lock").put_if(b"mine", None),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_of_a_minute_are_survived_by_every_request(bucket, monkeypatch, clock, what):
    AT.write_bytes(b"held")
    out_until(monkeypatch, bucket, clock, 60.0)
    assert REQUESTS[what]() if what != "put" else REQUESTS[what]() is None
    assert 60 <= clock[0] < 70


def test_of_longer_than_the_patience_are_errors(bucket, monkeypatch, clock):
    out_until(monkeypatch, bucket, clock, 1e9)
    with pytest.raises(OSError, match="error sending request"):
        AT.read_bytes()
    assert place.PATIENCE - 5 <= clock[0] <= place.PATIENCE


def test_refusals_are_not_asked_again(bucket, monkeypatch, clock):
    out_until(monkeypatch, bucket, clock, 1e9, "Generic S3 error: status 403 Forbidden")
    with pytest.raises(OSError, match="403"):
        AT.read_bytes()
    assert clock[0] == 0


def test_a_listing_that_is_cut_short_is_made_again_and_names_nothing_twice(bucket, monkeypatch, clock):
    for name in "abc":
        (AT / name).write_bytes(b"1")
    times = []

    def cut(self, prefix=None, **options):
        times.append(prefix)
        for some in MemoryStore.list(self, prefix):
            yield some[:2] if len(times) == 1 else some
        if len(times) == 1:
            raise GenericError("Generic S3 error: Error getting list response body: error decoding response body")

    monkeypatch.setattr(type(bucket), "list", cut)
    assert sorted(AT.sizes()) == [("a", 1), ("b", 1), ("c", 1)]
    assert len(times) == 2


def test_a_lock_whose_answer_was_lost_is_held(bucket, monkeypatch, clock):
    real, lost = type(bucket).put, [True]

    def put(self, *args, **more):
        found = real(self, *args, **more)
        if lost.pop() if lost else False:
            raise GenericError(CUT)
        return found

    monkeypatch.setattr(type(bucket), "put", put)
    assert AT.put_if(b"mine", None) is not None
    assert AT.put_if(b"another's", None) is None
