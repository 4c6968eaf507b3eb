"""Files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)  # of what this user may not write
LEFTOVER = re.compile(r"\..+-[0-9a-f]{32}(\.\w+)?")  # the name of a file that was being written when its process died


def may_write(folder: Path) -> bool:
    """Whether this user may make files in a folder that is there; a full disk is another matter."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` at the end, or goes if that fails.

    The name is unique, so that several processes may write one file at once; folders are made; the content is on disk
    before the name changes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
