"""Arrays in a directory, written by orbax: complete or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np


def save_arrays(directory: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays by name under `directory`, which must not exist."""
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(directory.absolute(), {name: a for name, a in arrays.items() if a.size})


def load_arrays(directory: Path) -> dict[str, np.ndarray]:
    """What `save_arrays` wrote; empty arrays are missing."""
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer:
        return {name: np.asarray(a) for name, a in checkpointer.restore(directory.absolute()).items()}


def directory_beside(path: Path) -> Path:
    """A new directory beside `path`, for `replace_directory`; whoever may read what this process makes may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))  # which is this user's alone
    new.chmod(0o777 & ~_umask())
    return new


def replace_directory(new: Path, path: Path) -> None:
    """Move `new` to `path`; what was at `path` is there until then and gone afterwards."""
    old = path.with_name(path.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
