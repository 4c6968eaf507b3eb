"""Arrays in a directory, written by orbax: complete or not there at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equitangents.files import folder_beside, put_in_place, remove_folder


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
    return folder_beside(path)


def replace_directory(new: Path, path: Path) -> None:
    """Move `new` to `path` in one step; what was at `path` is there until then and gone afterwards."""
    put_in_place(new, path)
    remove_folder(new)
