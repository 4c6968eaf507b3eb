"""One run at a time in a folder. The system gives the lock back when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from equitangents.errors import InvalidArgumentError

NAME = ".lock"


@contextlib.contextmanager
def only_run(path: Path) -> Iterator[None]:
    """Hold the folder `path`, which is made if need be; what another process left behind when it died does not count.

    Raises InvalidArgumentError where another run holds the folder, or nothing can be written.
    """
    made = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(path / NAME)
    except BlockingIOError:
        raise InvalidArgumentError(
            f"another run{_holder(path / NAME)} is writing into {path}; wait until it is done, or choose another "
            "folder with --out"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(f"out is {path}, where nothing can be written: {error.strerror}") from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        (path / NAME).unlink(missing_ok=True)
        os.close(descriptor)
        if made:
            with contextlib.suppress(OSError):  # a folder that holds something stays
                path.rmdir()


def _acquire(file: Path) -> int:
    """A locked descriptor of the file that now has this name: the one before may have been removed meanwhile."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == file.stat().st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _holder(file: Path) -> str:
    try:
        number = file.read_text().strip()
    except OSError:
        return ""
    return f" (process {number})" if number else ""
