"""Locks on files, which the system takes from a process that ends, however it ends: `flock`, on Windows `msvcrt`.

Neither host names nor process numbers count: a container that starts again as process 1 finds what it held free. On a
file system without such locks (some network mounts) nobody is kept out; a warning in the log says so.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from equitangents.errors import StoreError

logger = logging.getLogger("equitangents")

_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP), errno.EINVAL}
GLANCE, _PAUSE = 0.05, 0.01  # seconds for which another process may only look at a lock, and between two tries
_FAR = 0x7FFF0000  # where Windows locks a byte: what is written in the file stays readable
_mine: set[int] = set()  # descriptors of locks that this process holds


class HeldError(StoreError):
    """Another process holds the lock; `owner` is its number, as far as it is known."""

    owner = ""


class NoLocksError(OSError):
    """The file system has no locks."""


@contextlib.contextmanager
def alone(path: Path, otherwise: str, patience: float = GLANCE) -> Iterator[None]:
    """Hold the lock file `path`, which is made, and removed afterwards.

    HeldError, which says `otherwise`, where another process holds it for longer than `patience` seconds.
    """
    descriptor, owner = _acquired(path, otherwise, patience), os.getpid()
    _mine.add(descriptor)
    try:
        with contextlib.suppress(OSError):  # a full disk: the number is for people
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(owner).encode())
        yield
    finally:
        if os.getpid() == owner:  # a forked child holds nothing
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()
            _mine.discard(descriptor)
            os.close(descriptor)


def created(path: Path) -> int:
    """A descriptor of a new file that this process holds until it is closed; as far as there are locks.

    Who takes the file for left over before it is held, removes it while holding it: this one waits, and makes another.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            while not lock(descriptor):
                time.sleep(_PAUSE)
            if is_named(descriptor, path):
                return descriptor
        except NoLocksError:
            return descriptor
        os.close(descriptor)


def opened(path: Path) -> int:
    """A descriptor of a file that is there, which `lock` can be asked about."""
    return os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)


def lock(descriptor: int) -> bool:
    """Whether this process holds an open file now, until its descriptor is closed. NoLocksError if it cannot be."""
    try:
        _system_lock(descriptor)
    except ImportError:
        raise NoLocksError(errno.ENOSYS, "this system has no locks") from None
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno in _NONE:
            raise NoLocksError(error.errno, "this file system has no locks") from None
        raise
    return True


def is_named(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one of this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _system_lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _acquired(path: Path, otherwise: str, patience: float) -> int:
    """A locked descriptor of the file that has this name: the one before may have been removed meanwhile."""
    end = time.monotonic() + patience
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if lock(descriptor):
                if is_named(descriptor, path):
                    return descriptor
            elif time.monotonic() > end:
                error = HeldError(otherwise)
                with contextlib.suppress(OSError, ValueError):
                    error.owner = str(int(path.read_text()))
                raise error
            else:
                time.sleep(_PAUSE)
        except NoLocksError:
            logger.warning("the file system of %s has no locks: let one process at a time work there", path)
            return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _forget() -> None:
    """In a forked child, which would hold the locks of its parent beyond that one's end."""
    for descriptor in _mine:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _mine.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
