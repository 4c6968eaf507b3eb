"""Folders that this process may read and not write, also where the tests run as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def public_folder() -> Iterator[Path]:
    """A temporary folder that every user can enter; what is imported before it is entered as another one stays."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def without_permission(folder: Path) -> Iterator[None]:
    """Meanwhile this process may read the folder, and not write to it."""
    if os.geteuid():
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield
    else:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
