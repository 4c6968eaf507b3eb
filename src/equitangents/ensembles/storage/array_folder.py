"""A folder with one file, `model.npz`, that is replaced in one step: JSON, and arrays beside it.

The file is a zip archive: `model.json`, and the arrays `0.npy`, `1.npy`, …, each with its CRC-32, deflated where that
halves its beginning, as of images that were whole numbers; others as they are. Whoever
reads it holds it open, so that all is of one save, whatever is saved meanwhile. Other files in the folder are left
alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import weakref
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.ensembles.storage.checks import check_of
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.file_limits import UNREADABLE, check_arrays, read_json
from equitangents.files import LEFTOVER, MOST, open_regular, real, sync_folder, whole_file
from equitangents.tiles.place import store_errors

MODEL = "model.npz"
_JSON = "model.json"
_BEGINNING, _LARGE = 2**16, 2**30  # numbers; bytes, from which an array is written as it is


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
            with whole_file(home / MODEL) as partial, zipfile.ZipFile(partial, "w", compresslevel=1) as archive:
                with archive.open(_JSON, "w") as file:
                    file.write(json.dumps(about, indent=1).encode())
                for number, array in enumerate(arrays):
                    archive.compression = zipfile.ZIP_DEFLATED if _is_halved(array) else zipfile.ZIP_STORED
                    with archive.open(f"{number}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, array, allow_pickle=False)
            sync_folder(home)
    except BaseException:
        if fresh:
            with contextlib.suppress(OSError):  # another process has saved there
                home.rmdir()
        raise


def _is_halved(array: np.ndarray) -> bool:
    start = np.asarray(array.flat[:_BEGINNING]).tobytes()
    return array.nbytes < _LARGE and len(zlib.compress(start, 1)) < len(start) / 2


class About(dict[str, Any]):
    """What a saved model says of itself; it holds the archive of one save open."""

    path: Path
    archive: zipfile.ZipFile

    def damaged(self, why: object) -> StoreError:
        """The error for a model that cannot be what was saved."""
        return _damaged(self.path, why)


def read_about(path: Path) -> About:
    """What `write_folder` wrote as JSON; StoreError for anything else."""
    try:
        file = open_regular(real(path) / MODEL)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError("path", str(path), "the folder of a saved model", f"it holds no {MODEL}") from None
    except OSError as error:
        raise _damaged(path, error.strerror or error) from None
    try:
        check_arrays(file, whole=False)
        archive = zipfile.ZipFile(file)
        if archive.getinfo(_JSON).file_size > MOST:
            raise ValueError(f"{_JSON} is too large")
        about = About(read_json(archive.read(_JSON)))
    except UNREADABLE as error:
        file.close()
        raise _damaged(path, error) from None
    about.path, about.archive = path, archive
    weakref.finalize(about, file.close)
    return about


def read_model(path: Path, classes: Sequence[str], types: Mapping[str, str], same: Mapping[str, object]) -> About:
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
    wrong = [name for name, words in types.items() if name not in about or not check_of(words)(about[name], ())]
    if wrong or not isinstance(held, str):
        raise about.damaged(f"{(*wrong, 'class')[0]} is not as written")
    return about


def _damaged(path: Path, why: object) -> StoreError:
    return StoreError("path", str(path), "a saved model that can be read", f"{MODEL}: {why}; fit the model again")


def digest(path: Path) -> str:
    """A hash of all that is in a saved model, by the checksums in its archive; StoreError where there is none."""
    held = read_about(path).archive.infolist()
    return hashlib.sha256(repr([(each.filename, each.file_size, each.CRC) for each in held]).encode()).hexdigest()


class Arrays:
    """The arrays of a save, each read once, when it is asked for, after its checksum was found right.

    StoreError for one that is damaged; IndexError for one that there is not.
    """

    def __init__(self, about: About) -> None:
        self._about, self._read = about, dict[int, np.ndarray]()

    def __getitem__(self, number: int) -> np.ndarray:
        if number not in self._read:
            name = f"{number}.npy"
            if name not in self._about.archive.NameToInfo:
                raise IndexError(f"there is no array {number}")
            try:
                with self._about.archive.open(name) as file:
                    self._read[number] = np.lib.format.read_array(file, allow_pickle=False)
            except UNREADABLE as error:
                raise self._about.damaged(f"{name}: {error}") from None
        return self._read[number]
