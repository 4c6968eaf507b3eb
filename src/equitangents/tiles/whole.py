"""Files that appear whole, from processes of several machines, any of which may die at any time.

What is being written has a name with its machine and process, so that what the dead left behind is known and removed.

Large files go past the page cache: the disk takes what this process holds, and the operating system copies nothing.
Copying 4 MB into the page cache and from there to the disk takes several milliseconds of a processor, this a fraction
of one. What does not begin at a page, small files, and file systems that cannot do it have the ordinary write.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents.tiles.place import ObjectPath, Place

PARTIAL = ".partial"  # the folder in a store's where its files are written before they get their names
_ABANDONED = 3600.0  # seconds after which what another machine was writing belongs to a process that died
_ATTEMPTS = 3  # at writing a file that others sweep away
_NAME = re.compile(r"\.(?P<host>[\w-]*)\+(?P<process>\d+)\+[0-9a-f]{32}")
PAGE = 4096  # bytes: a multiple of the blocks of disks in use
_LARGE = 2**20  # bytes from which it pays
_DIRECT = getattr(os, "O_DIRECT", 0)  # there is none on macOS and Windows
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


def temporary_name() -> str:
    """A name that nobody else uses, and that says whose it is."""
    host = re.sub(r"[^\w-]", "-", socket.gethostname())
    return f".{host}+{os.getpid()}+{uuid.uuid4().hex}"


@dataclass(frozen=True)
class File:
    """A file to be written: first in `folder`, for this while, then under its name; `content()` makes what it holds.

    An object is put under its name at once: nobody sees a part of it.
    """

    path: Place
    folder: Place
    content: Callable[[], memoryview]


def write_whole(path: Place, parts: Sequence[bytes], folder: Place) -> None:
    """Write all `parts` to a temporary file in `folder`, and rename that to `path` when it is on disk."""
    write_together([File(path, folder, lambda: memoryview(b"".join(parts)))])


def write_together(files: Sequence[File]) -> None:
    """Write temporary files, one after another, and rename them in order when all are on disk; put objects in order."""
    waiting: list[tuple[Path, Path, File]] = []
    for file in files:
        if isinstance(file.path, ObjectPath) or isinstance(file.folder, ObjectPath):
            file.path.write_bytes(file.content())
        else:
            waiting.append((file.path, file.folder, file))
    failures = 0
    while waiting:
        named = 0
        partials = [folder / temporary_name() for _, folder, _ in waiting]
        try:
            _put_on_disk([(folder, file.content) for _, folder, file in waiting], partials)
            for (path, _, _), partial in zip(waiting, partials, strict=True):
                os.replace(partial, path)
                named += 1
        except FileNotFoundError:  # another process found the folder empty and removed it, or swept what was in it
            failures = 0 if named else failures + 1
            if failures == _ATTEMPTS:
                raise
        finally:
            for partial in partials[named:]:
                partial.unlink(missing_ok=True)
        waiting = waiting[named:]


def _put_on_disk(files: Sequence[tuple[Path, Callable[[], memoryview]]], partials: Sequence[Path]) -> None:
    descriptors = []
    try:
        for (folder, content), partial in zip(files, partials, strict=True):
            folder.mkdir(exist_ok=True)
            descriptors.append(create(partial, content()))
        for descriptor in descriptors:
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def sweep(folder: Place) -> list[Path]:
    """Remove what processes were writing in `folder` that are dead, where this one may; returns what that was."""
    removed: list[Path] = []
    if isinstance(folder, ObjectPath):  # nothing is there in part
        return removed
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if _is_abandoned(path):
                with contextlib.suppress(OSError):  # another user's, or a disk that is only read
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                    removed.append(path)
    return removed


def _is_abandoned(path: Path) -> bool:
    name = _NAME.fullmatch(path.name)
    if name is None:
        return False
    if _NAME.fullmatch(temporary_name())["host"] == name["host"] and sys.platform != "win32":  # type: ignore[index]
        try:
            os.kill(int(name["process"]), 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it is there, and another user's
            pass
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > _ABANDONED
    return False


def pages(size: int) -> memoryview:
    """Memory of so many bytes that begins at a page."""
    return memoryview(mmap.mmap(-1, size))


def create(path: Path, content: memoryview) -> int:
    """Write a file, and return its descriptor, which is open for `os.fsync`."""
    descriptor, direct = _opened(path, len(content) >= _LARGE and _begins_at_a_page(content))
    try:
        written = 0
        if direct:
            written = _write_pages(descriptor, content)
            _go_on_through_the_cache(descriptor)
        while written < len(content):
            written += os.write(descriptor, content[written:])
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _opened(path: Path, direct: bool) -> tuple[int, bool]:
    if direct and _DIRECT:
        try:
            return os.open(path, _FLAGS | _DIRECT, 0o666), True
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return os.open(path, _FLAGS, 0o666), False


def _write_pages(descriptor: int, content: memoryview) -> int:
    """How many bytes were written of those that fill whole pages; fewer where this file system cannot."""
    end, written = len(content) - len(content) % PAGE, 0
    try:
        while written < end and written % PAGE == 0:
            written += os.write(descriptor, content[written:end])
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return written


def _go_on_through_the_cache(descriptor: int) -> None:
    import fcntl  # where there is O_DIRECT

    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_DIRECT)


def _begins_at_a_page(content: memoryview) -> bool:
    return np.frombuffer(content, np.uint8).ctypes.data % PAGE == 0
