"""Files and folders that appear only when they are complete, locks, and what processes that were killed left of them.

Locks are the system's, which takes them from a process that ends, however it ends: `flock`, on Windows `msvcrt`.
Neither host names nor process numbers count: a container that starts again as process 1 finds what it held free. On a
file system without locks (some network mounts) nobody is kept out; a warning in the log says so.

What is being written is locked by its writer: what nobody holds is left over from one that is dead. Symbolic links stay
links: what they point to is replaced.

A checksum may be the last line of a file that says what it is: readers of .npy stop before that line, and for readers
of .npz it is the comment of a zip file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import stat
import sys
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from equitangents.errors import StoreError

logger = logging.getLogger("equitangents")

FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)  # of what this user may not write
LEFTOVER = re.compile(r"\..+-[0-9a-f]{32}(\.\w+)?")  # the name of what was being written when its process died
ABANDONED = 3600.0  # seconds after which that is so on file systems that have no locks
MOST = 2**26  # bytes of JSON and of scripts, far more than any that was written here
_MARK = b"\nequitangents "
_BLOCK = 2**24  # bytes that are checked at once
_LONGEST = 2**16 - 1  # bytes of the last line: those of the comment of a zip file
_NO_COMMENT = b"PK\x05\x06"  # how the last 22 bytes of a zip file without comment begin
_LAST = 22
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP), errno.EINVAL}
_GLANCE, _PAUSE = 0.05, 0.01  # seconds for which another process may only look at a lock, and between two tries
_FAR = 0x7FFF0000  # where Windows locks a byte: what is written in the file stays readable
_mine: set[int] = set()  # descriptors of locks that this process holds


class NoLocksError(OSError):
    """The file system has no locks."""


@contextlib.contextmanager
def alone(path: Path, otherwise: str, patience: float = _GLANCE) -> Iterator[None]:
    """Hold the lock file `path`, which is made, and removed afterwards.

    StoreError, which says `otherwise`, where another process holds it for longer than `patience` seconds.
    """
    descriptor, owner = _acquired(path, otherwise, patience), os.getpid()
    _mine.add(descriptor)
    try:
        yield
    finally:
        if os.getpid() == owner:  # a forked child holds nothing
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()
            _mine.discard(descriptor)
            os.close(descriptor)


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
                raise StoreError(otherwise)
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


def _created(path: Path) -> int:
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


def may_write(folder: Path) -> bool:
    """Whether this user may make files in a folder that is there; a full disk is another matter."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def real(path: Path) -> Path:
    """Where a path leads: links are followed once, so that one that is changed meanwhile mixes nothing."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def whole_file(path: Path, *, once: bool = False) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` at the end, or goes if that fails.

    The name is unique, so that several processes may write one file at once; folders are made; the content is on disk
    before the name changes. What is no file (/dev/stdout, a pipe) is written to as it is. `once`: FileExistsError where
    there is a file of that name by then.
    """
    path = real(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    descriptor = _created(partial)
    try:
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            if sys.platform == "win32":  # which renames no open file
                descriptor = _closed(descriptor)
            if once:
                os.link(partial, path)
            else:
                os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        sweep_partials(path)
    finally:
        _closed(descriptor)


def sweep_partials(path: Path) -> None:
    """Remove what dead processes left of `path` in `whole_file`."""
    sweep(path.parent, re.compile(rf"\.{re.escape(path.stem)}-[0-9a-f]{{32}}{re.escape(path.suffix)}"))


def _closed(descriptor: int) -> int:
    """Close a descriptor, unless that is done; −1, which stands for a closed one."""
    if descriptor >= 0:
        os.close(descriptor)
    return -1


def sweep(folder: Path, name: re.Pattern[str] = LEFTOVER) -> None:
    """Remove what dead processes were writing in a folder under a name of this form, as far as this user may."""
    with contextlib.suppress(OSError):
        for left in [folder / each for each in os.listdir(folder) if name.fullmatch(each)]:
            with contextlib.suppress(OSError):
                _remove_abandoned(left)


def _remove_abandoned(file: Path) -> None:
    """Remove a file that nobody holds, and hold it meanwhile: its writer may be about to.

    Without locks: one that is older than an hour.
    """
    descriptor = os.open(file, os.O_RDWR if os.access(file, os.W_OK) else os.O_RDONLY)
    try:
        if lock(descriptor) and is_named(descriptor, file):
            file.unlink()
    except NoLocksError:
        if time.time() - file.stat().st_mtime > ABANDONED:
            file.unlink()
    finally:
        os.close(descriptor)


def open_regular(path: str | Path) -> BinaryIO:
    """A file to read from; OSError for a pipe or a device, which may have no end; neither is waited for."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        kind = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
        raise OSError(kind, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def file_bytes(path: Path, most: int = MOST) -> bytes:
    """What a regular file holds; OSError, before anything is read, where that is more than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
        if max(size, len(content)) > most:  # also where it grows meanwhile
            raise OSError(errno.EFBIG, f"it takes {size:,} bytes; expected at most {most:,}", str(path))
        return content


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record that JSON can hold."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def append_checksum(path: Path, about: dict[str, Any]) -> None:
    """Add the last line to a file that is complete."""
    with path.open("rb+") as file:
        text = _MARK + json.dumps(about, sort_keys=True).encode() + b" "
        length = len(text) + 9
        if length > _LONGEST:
            raise StoreError("path", str(path), "a last line of a checksum", "it is too long")
        zipped = file.read(2) == _NO_COMMENT[:2]
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LAST))
        if zipped and file.read().startswith(_NO_COMMENT):
            file.seek(size - 2)
            file.write(length.to_bytes(2, "little"))
        found = zlib.crc32(text, _checksum(file, size))
        file.seek(size)
        file.write(text + b"%08x\n" % found)


def checked(file: BinaryIO) -> dict[str, Any] | None:
    """What the last line says; None for a file without one, or one that is not what was written."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _LONGEST)
    file.seek(begin)
    end = file.read()
    place = end.rfind(_MARK)
    text, found = end[place:-9], end[-9:]
    if place < 0 or found != b"%08x\n" % zlib.crc32(text, _checksum(file, begin + place)):
        return None
    about: dict[str, Any] = json.loads(text[len(_MARK) :])
    return about


def _checksum(file: BinaryIO, size: int) -> int:
    """CRC-32 of the first `size` bytes."""
    found = 0
    file.seek(0)
    for start in range(0, size, _BLOCK):
        found = zlib.crc32(file.read(min(_BLOCK, size - start)), found)
    return found
