"""Files written past the page cache: the disk takes what this process holds, and the operating system copies nothing.

Copying 4 MB into the page cache and from there to the disk takes several milliseconds of a processor, this a fraction
of one. What does not begin at a page, small files, and file systems that cannot do it have the ordinary write.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import numpy as np

PAGE = 4096  # bytes: a multiple of the blocks of disks in use
_LARGE = 2**20  # bytes from which it pays
_DIRECT = getattr(os, "O_DIRECT", 0)  # there is none on macOS and Windows
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


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
