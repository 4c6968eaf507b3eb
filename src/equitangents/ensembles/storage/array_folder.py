"""A folder with one file, `model.npz`, an archive that is replaced in one step. Other files in it are left alone."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.archives import Archive, write_archive
from equitangents.ensembles.storage.checks import is_of
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.files import LEFTOVER, open_regular, real, sync_folder, whole_file
from equitangents.tiles.place import store_errors

MODEL = "model.npz"


def check_place(path: Path) -> None:
    """Raise InvalidArgumentError where something other than a saved ensemble is at `path`."""
    if (path / MODEL).is_file() or not path.exists():
        return
    if not path.is_dir() or not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
        raise InvalidArgumentError(f"path is {str(path)!r}, which exists and is not a saved ensemble; choose another")


def write_folder(path: Path, about: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Save `about`, which JSON can hold, and the arrays in the folder `path`, whole or not at all.

    Raises StoreError where the disk is full, or nothing may be written.
    """
    home = real(path)
    fresh = not home.exists()
    try:
        with store_errors(f"{path} cannot be written", "; what was saved there before is kept", with_file=True):
            with whole_file(home / MODEL) as partial:
                write_archive(partial, about, arrays)
            sync_folder(home)
    except BaseException:
        if fresh:
            with contextlib.suppress(OSError):  # another process has saved there
                home.rmdir()
        raise


def read_about(path: Path) -> Archive:
    """What `write_folder` wrote; StoreError for anything else."""
    try:
        return Archive(open_regular(real(path) / MODEL), path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError("path", str(path), "the folder of a saved model", f"it holds no {MODEL}") from None
    except OSError as error:
        raise damaged(path, error.strerror or error) from None
    except ValueError as error:
        raise damaged(path, error) from None


def read_model(path: Path, classes: Sequence[str], types: Mapping[str, str], same: Mapping[str, object]) -> Archive:
    """What a saved model of one of these classes says of itself, by entries of these types, as in `kinds`.

    InvalidArgumentError for one of another class, StoreError for one that is damaged, or differs in what has to be the
    `same`, such as the version.
    """
    about = read_about(path)
    held = about.get("class")
    if isinstance(held, str) and held not in classes:
        raise InvalidArgumentError("path", str(path), list(classes), f"load it by {held}.load", verb=f"holds {held}:")
    for name, value in same.items():
        if about.get(name) != value:
            raise StoreError(
                "path",
                str(path),
                f"a model with {name} {value}",
                f"it was saved with {about.get(name)}: fit the model again, or install that version",
            )
    wrong = [name for name, words in types.items() if name not in about or not is_of(words, about[name])]
    if wrong or not isinstance(held, str):
        raise damaged(path, f"{(*wrong, 'class')[0]} is not as written")
    return about


def damaged(path: object, why: object) -> StoreError:
    """The error for a model that cannot be what was saved."""
    return StoreError("path", str(path), "a saved model that can be read", f"{MODEL}: {why}; fit the model again")


def digest(path: Path) -> str:
    """A hash of all that is in a saved model, by the checksums in its archive; StoreError where there is none."""
    held = read_about(path).zip.infolist()
    return hashlib.sha256(repr([(each.filename, each.file_size, each.CRC) for each in held]).encode()).hexdigest()
