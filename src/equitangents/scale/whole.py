"""Files that appear whole, from processes of several machines, any of which may die at any time.

What is being written has a name with its machine and process, so that what the dead left behind is known and removed.
"""

from __future__ import annotations

import contextlib
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

from equitangents.scale.direct import create

_ABANDONED = 3600.0  # seconds after which what another machine was writing belongs to a process that died
_ATTEMPTS = 3  # at writing a file that others sweep away
_NAME = re.compile(r"\.(?P<host>[\w-]*)\+(?P<process>\d+)\+[0-9a-f]{32}")


def temporary_name() -> str:
    """A name that nobody else uses, and that says whose it is."""
    host = re.sub(r"[^\w-]", "-", socket.gethostname())
    return f".{host}+{os.getpid()}+{uuid.uuid4().hex}"


@dataclass(frozen=True)
class File:
    """A file to be written: first in `folder`, for this while, then under its name; `content()` makes what it holds."""

    path: Path
    folder: Path
    content: Callable[[], memoryview]


def write_whole(path: Path, parts: Sequence[bytes], folder: Path) -> None:
    """Write all `parts` to a temporary file in `folder`, and rename that to `path` when it is on disk."""
    write_together([File(path, folder, lambda: memoryview(b"".join(parts)))])


def write_together(files: Sequence[File]) -> None:
    """Write temporary files, one after another, and rename them in order when all are on disk."""
    waiting, failures = list(files), 0
    while waiting:
        named = 0
        partials = [file.folder / temporary_name() for file in waiting]
        try:
            _put_on_disk(waiting, partials)
            for file, partial in zip(waiting, partials, strict=True):
                os.replace(partial, file.path)
                named += 1
        except FileNotFoundError:  # another process found the folder empty and removed it, or swept what was in it
            failures = 0 if named else failures + 1
            if failures == _ATTEMPTS:
                raise
        finally:
            for partial in partials[named:]:
                partial.unlink(missing_ok=True)
        waiting = waiting[named:]


def _put_on_disk(files: Sequence[File], partials: Sequence[Path]) -> None:
    descriptors = []
    try:
        for file, partial in zip(files, partials, strict=True):
            file.folder.mkdir(exist_ok=True)
            descriptors.append(create(partial, file.content()))
        for descriptor in descriptors:
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def sweep(folder: Path) -> list[Path]:
    """Remove what processes were writing in `folder` that are dead, where this one may; returns what that was."""
    removed = []
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
