"""Locks at a place: those of files in a folder, and in an object store an object that its owner renews while it lives.

No clocks are compared: whoever finds a lock watches it. One that is not renewed for the length of a lease belonged to a
process that died, and is taken over, by one process, since a put on the condition of a version succeeds once.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from time import monotonic

from equitangents import locks
from equitangents.errors import StoreError
from equitangents.tiles.place import ObjectPath, Place

LEASE = 20.0  # seconds without a renewal after which an owner is taken for dead
_RENEWALS = 5  # in the time of a lease


def alone(path: Place, otherwise: str, patience: float = locks.GLANCE) -> AbstractContextManager[None]:
    """Hold the lock `path`; StoreError, that says `otherwise`, where another process has it for `patience` seconds."""
    if isinstance(path, ObjectPath):
        return _leased(path, otherwise, patience)
    return locks.alone(path, otherwise, patience)


@contextmanager
def _leased(path: ObjectPath, otherwise: str, patience: float) -> Iterator[None]:
    """Hold the lock; StoreError, which says `otherwise`, where another process holds it and lives."""
    owner, end = uuid.uuid4().hex, monotonic() + patience
    tag = path.put_if(_content(owner, 0), None) or _taken_over(path, owner)
    while tag is None and monotonic() < end:
        tag = _taken_over(path, owner)
    if tag is None:
        raise StoreError(otherwise)
    held, counted = tag, itertools.count(1)

    def renew() -> bool:
        nonlocal held
        now = path.put_if(_content(owner, next(counted)), held)
        if now is not None:
            held = now
        return now is not None

    try:
        with _renewed(renew, LEASE / _RENEWALS):
            yield
    finally:
        if _is_of(path, owner):
            path.unlink()


@contextmanager
def _renewed(renew: Callable[[], bool], seconds: float) -> Iterator[None]:
    """Have a thread call `renew` every so many seconds until the end, or until it returns False.

    After an OSError it tries again: the next renewal may arrive.
    """
    ended = threading.Event()

    def renewing() -> None:
        while not ended.wait(seconds):
            with suppress(OSError):
                if not renew():
                    return

    thread = threading.Thread(target=renewing, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _taken_over(path: ObjectPath, owner: str) -> str | None:
    """The tag of a lock whose owner died; None where it lives."""
    try:
        first = path.tagged()[1]
        end = monotonic() + LEASE
        while monotonic() < end:
            threading.Event().wait(LEASE / (2 * _RENEWALS))
            if path.tagged()[1] != first:
                return None
    except FileNotFoundError:  # it was let go meanwhile
        return path.put_if(_content(owner, 0), None)
    return path.put_if(_content(owner, 0), first)


def _is_of(path: ObjectPath, owner: str) -> bool:
    try:
        return path.read_bytes().startswith(owner.encode())
    except FileNotFoundError:
        return False


def _content(owner: str, count: int) -> bytes:
    return f"{owner} {count}".encode()
