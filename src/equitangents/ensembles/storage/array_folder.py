"""A folder of one JSON file and numbered arrays, each with its checksum; it appears whole, in place of an older one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from equitangents.claims import UNREADABLE, check_arrays, read_json
from equitangents.ensembles.storage.arrays import directory_beside, replace_directory
from equitangents.errors import StoreError

ABOUT = "model.json"
_BLOCK = 2**26  # bytes that are checked at once


def write_folder(path: Path, about: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write `about` and the arrays beside `path`, and move them there when all is on disk."""
    new = directory_beside(path)
    try:
        (new / "arrays").mkdir()
        files = [_write_array(new / "arrays" / f"{i}.npy", array) for i, array in enumerate(arrays)]
        content = about | {"arrays": files}
        text = json.dumps({"content": content, "sha256": _checksum(content)}, indent=1)
        _write(new / ABOUT, text.encode())
        replace_directory(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read_about(path: Path, said: str) -> dict[str, Any]:
    """What `write_folder` wrote in its JSON file; StoreError that begins with `said` for anything else."""
    try:
        whole = read_json((path / ABOUT).read_bytes())
        content: dict[str, Any] = whole["content"]
        if not isinstance(content, dict) or whole["sha256"] != _checksum(content):
            raise ValueError("it does not have its checksum")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{said} is not a model that was saved: it holds no {ABOUT}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{said} is damaged, or not a model that was saved: {ABOUT}: {error}") from None
    return content


def read_array(path: Path, about: dict[str, Any], number: int, said: str) -> np.ndarray:
    """One array, after its checksum was found right; StoreError that begins with `said` where it is not."""
    file, entry = path / "arrays" / f"{number}.npy", about["arrays"][number]
    try:
        with file.open("rb") as opened:
            checksum = google_crc32c.Checksum()
            while part := opened.read(_BLOCK):
                checksum.update(part)
            if int.from_bytes(checksum.digest(), "big") != entry["crc32c"]:
                raise ValueError("it does not have its checksum")
            check_arrays(opened)
            array: np.ndarray = np.lib.format.read_array(opened, allow_pickle=False)
    except UNREADABLE as error:
        raise StoreError(f"{said} is damaged: {file.name}: {error}; fit the model again") from None
    return array


def _write_array(file: Path, array: np.ndarray) -> dict[str, Any]:
    with file.open("wb") as opened:
        counted = _Counted(opened)
        np.lib.format.write_array(counted, np.asarray(array), allow_pickle=False)
        opened.flush()
        os.fsync(opened.fileno())
    return {
        "crc32c": int.from_bytes(counted.checksum.digest(), "big"),
        "shape": list(array.shape),
        "dtype": array.dtype.str,
    }


class _Counted:
    """A file to write to, whose checksum is known afterwards."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.checksum = google_crc32c.Checksum()

    def write(self, content: Any) -> int:
        self.checksum.update(bytes(content))
        written: int = self._file.write(content)
        return written


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
