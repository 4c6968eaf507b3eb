"""Atomic writes of files, locks, and removal of what killed processes left behind.

Locks are the system's, which takes them from a process that ends, however it ends: `flock`, on Windows `msvcrt`.
Host names and process numbers play no part: a container that restarts as process 1 finds its locks free. On a file
system without locks (some network mounts) nobody is kept out, and the log has a warning.

A writer locks its partial file: one that nobody locks was left by a dead process. Symbolic links stay links: their
targets are replaced.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import re
import stat
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from equitangents.errors import StoreError

logger = logging.getLogger("equitangents")

LEFTOVER = re.compile(r"\..+-[0-9a-f]{32}(\.\w+)?")  # the name of a partial file
_ABANDONED = 3600.0  # seconds after which a partial file is left over, on file systems without locks
MOST = 2**26  # bytes of JSON and of scripts that are read
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP), errno.EINVAL}
_GLANCE, _PAUSE = 0.05, 0.01  # seconds: how long another process may hold a lock to look at it; between two tries
_FAR = 0x7FFF0000  # where Windows locks a byte: what is written in the file stays readable


@contextlib.contextmanager
def locked(path: Path, message: str, patience: float = _GLANCE) -> Iterator[None]:
    """Create and hold the lock file `path`; remove it afterwards.

    Raises StoreError(message) if another process holds it for longer than `patience` seconds.
    """
    descriptor, owner = _held(path, message, patience), os.getpid()
    try:
        yield
    finally:
        if os.getpid() == owner:  # a forked child holds nothing
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()
            os.close(descriptor)


def lock(descriptor: int) -> bool | None:
    """Whether this process now holds the lock of an open file, until it is closed; None without locks."""
    try:
        _system_lock(descriptor)
    except (ImportError, OSError) as error:
        number = error.errno if isinstance(error, OSError) else errno.ENOSYS
        if number in _TAKEN or number in _NONE:
            return False if number in _TAKEN else None
        raise
    return True


def is_named(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`."""
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


def _held(path: Path, message: str = "", patience: float = math.inf) -> int:
    """Descriptor of the file `path`, created if needed, and locked where there are locks.

    A file that is removed meanwhile is created again. Raises StoreError(message) if another process holds it for
    longer than `patience` seconds.
    """
    end = time.monotonic() + patience
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            held = lock(descriptor)
            if held is None and message:
                logger.warning("the file system of %s has no locks: let one process at a time work there", path)
            if held is None or (held and is_named(descriptor, path)):
                return descriptor
            if not held and time.monotonic() > end:
                raise StoreError(message)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        time.sleep(0 if held else _PAUSE)


def real(path: Path) -> Path:
    """The target of a path: links are followed once, so that a link changed meanwhile has no effect."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def atomic_file(path: Path, *, once: bool = False) -> Iterator[Path]:
    """Temporary path to write to, which replaces `path` at the end, and is removed on errors.

    The name is unique, so that several processes may write one file at once; folders are made; the content is on disk
    before the name changes. /dev/stdout and pipes are written to directly. `once`: FileExistsError if `path` exists by
    then.
    """
    path = real(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    with os.fdopen(_held(partial), "rb+") as held:
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            if sys.platform == "win32":  # which renames no open file
                held.close()
            if once:
                os.link(partial, path)
            else:
                os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        sweep_partials(path)


def sweep_partials(path: Path) -> None:
    """Remove partial files of `path` that dead processes left."""
    sweep(path.parent, re.compile(rf"\.{re.escape(path.stem)}-[0-9a-f]{{32}}{re.escape(path.suffix)}"))


def sweep(folder: Path, name: re.Pattern[str] = LEFTOVER) -> None:
    """Remove partial files with names of this form that dead processes left in a folder, as far as this user may."""
    with contextlib.suppress(OSError):
        for left in [folder / each for each in os.listdir(folder) if name.fullmatch(each)]:
            with contextlib.suppress(OSError):
                _remove_abandoned(left)


def _remove_abandoned(file: Path) -> None:
    """Remove a file that nobody has locked, and lock it meanwhile; without locks, one older than an hour."""
    descriptor = os.open(file, os.O_RDWR if os.access(file, os.W_OK) else os.O_RDONLY)
    try:
        held = lock(descriptor)
        old = time.time() - file.stat().st_mtime > _ABANDONED
        if (held and is_named(descriptor, file)) or (held is None and old):
            file.unlink()
    finally:
        os.close(descriptor)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading; raises OSError for pipes and devices, which may have no end, without waiting."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        kind = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
        raise OSError(kind, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def file_bytes(path: Path, most: int = MOST) -> bytes:
    """Content of a regular file; raises OSError, before reading, if it is longer than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
        if max(size, len(content)) > most:  # also where it grows meanwhile
            raise OSError(errno.EFBIG, f"it takes {size:,} bytes; expected at most {most:,}", str(path))
        return content
