"""Locks on files, which the system takes from a process that ends, however it ends: `flock`, on Windows `msvcrt`.

Neither host names nor process numbers count: a container that starts again as process 1 finds what it held free. File
systems without such locks (some network mounts) have leases of a minute, which their owner renews; the log says so.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from equitangents.errors import StoreError

logger = logging.getLogger("equitangents")

LEASE = 60.0  # seconds for which a lease that is not renewed counts
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP), errno.EINVAL}
_ATTEMPTS, _PAUSE = 5, 0.01  # at a lock, which another process may only be looking at, and seconds between them
_FAR = 0x7FFF0000  # where Windows locks a byte: what is written in the file stays readable
_mine: set[int] = set()  # descriptors of locks that this process holds


class HeldError(Exception):
    """Another process holds the lock; `owner` is its number, as far as it is known."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner}" if owner else "held by another process")
        self.owner = owner


class NoLocksError(OSError):
    """The file system has no locks."""


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which is made, and removed afterwards. HeldError where another one holds it."""
    descriptor = _acquired(path)
    owner = os.getpid()
    _mine.add(descriptor)
    try:
        with contextlib.nullcontext() if _locks(descriptor) else _lease(path):
            try:
                with contextlib.suppress(OSError):  # a full disk: the number is for people
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(owner).encode())
                yield
            finally:
                if os.getpid() == owner:  # a forked child holds nothing
                    with contextlib.suppress(OSError):  # Windows removes no open file
                        path.unlink()
    finally:
        if os.getpid() == owner:
            _mine.discard(descriptor)
            os.close(descriptor)


@contextlib.contextmanager
def alone(path: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock file `path`; StoreError, which says `otherwise`, where another process holds it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(path))
        except HeldError:
            raise StoreError(otherwise) from None
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file `path`."""
    try:
        return is_locked(path)
    except FileNotFoundError:
        return False
    except NoLocksError:
        with contextlib.suppress(FileNotFoundError):
            return _age(path, _lease_of(path).stat()) < LEASE
        return False


def created(path: Path) -> int:
    """A descriptor of a new file that this process holds until it is closed; as far as there are locks."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if not _locks_in_vain(descriptor, path):
            return descriptor
        os.close(descriptor)
        path.unlink(missing_ok=True)


def is_locked(path: Path) -> bool:
    """Whether another open file of that name is held; NoLocksError where nobody can know."""
    descriptor = opened(path)
    try:
        return not lock(descriptor)
    finally:
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


def _locks(descriptor: int) -> bool:
    """Whether the file system has locks; this process holds the one of the descriptor then."""
    try:
        return lock(descriptor)
    except NoLocksError:
        return False


def _locks_in_vain(descriptor: int, path: Path) -> bool:
    """Whether another process took a new file for left over, and is about to remove it or has done so."""
    try:
        return not (lock(descriptor) and is_named(descriptor, path))
    except NoLocksError:
        return False


def _acquired(path: Path) -> int:
    """A locked descriptor of the file that has this name: the one before may have been removed meanwhile."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                taken = not lock(descriptor)
            except NoLocksError:
                return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            if taken:
                os.close(descriptor)
                break
            if is_named(descriptor, path):
                return descriptor
            os.close(descriptor)
    raise HeldError(_owner(path))


def is_named(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one of this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _owner(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return str(int(path.read_text()))
    return ""


@contextlib.contextmanager
def _lease(path: Path) -> Iterator[None]:
    """Hold a file beside `path`, which counts as long as it is renewed; HeldError where another process does."""
    lease = _lease_of(path)
    for _ in range(_ATTEMPTS):
        try:
            os.close(os.open(lease, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            break
        except FileExistsError:
            _remove_stale(path, lease)
    else:
        raise HeldError(_owner(path))
    logger.warning(
        "the file system of %s has no locks: the lock of a process that dies there counts for %.0f s", path, LEASE
    )
    try:
        with renewed(lambda: os.utime(lease), LEASE / 6):
            yield
    finally:
        with contextlib.suppress(OSError):
            lease.unlink()


@contextlib.contextmanager
def renewed(renew: Callable[[], object], seconds: float) -> Iterator[None]:
    """Have a thread call `renew` every so many seconds until the end, or until it returns False.

    After an OSError it tries again: the next renewal may arrive.
    """
    ended = threading.Event()

    def renewing() -> None:
        while not ended.wait(seconds):
            with contextlib.suppress(OSError):
                if renew() is False:
                    return

    thread = threading.Thread(target=renewing, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _remove_stale(path: Path, lease: Path) -> None:
    """Remove a lease that has run out; HeldError for one that counts."""
    with contextlib.suppress(FileNotFoundError):
        judged = lease.stat()
        if _age(path, judged) < LEASE:  # also of one that is gone by now: what has its name then is not that one
            raise HeldError(_owner(path))
        aside = lease.with_name(f"{lease.name}-{uuid.uuid4().hex}")
        os.rename(lease, aside)
        if not os.path.samestat(judged, aside.stat()):  # another process was faster, and holds it
            with contextlib.suppress(FileExistsError):
                os.link(aside, lease)
        aside.unlink()


def _age(path: Path, lease: os.stat_result) -> float:
    """Seconds since a lease was renewed, by the clock of the file system where that can be asked."""
    with contextlib.suppress(OSError):
        os.utime(path)
        return path.stat().st_mtime - lease.st_mtime
    return time.time() - lease.st_mtime


def _lease_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


def _forget() -> None:
    """In a forked child, which would hold the locks of its parent beyond that one's end."""
    for descriptor in _mine:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _mine.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
