"""Archives: a record and arrays in one file; each array is read on demand.

The file is a zip archive: `model.json`, and the arrays `0.npy`, `1.npy`, …, each with its CRC-32. An array is deflated
if that halves a sample of it, as for images of whole numbers; otherwise it is stored. Saved models, checkpoints, stages
of studies and chunks of predictions are such files.
"""

from __future__ import annotations

import json
import weakref
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from equitangents.files import MOST
from equitangents.foreign_files import UNREADABLE, check_unpacked, read_entry, read_json

_JSON = "model.json"
_FIRST, _LARGE = 2**16, 2**30  # numbers; bytes from which an array is stored


def write_archive(file: Path | BinaryIO, about: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write `about`, a JSON-compatible record, and the arrays; raises the file's errors."""
    with zipfile.ZipFile(file, "w", compresslevel=1) as archive:
        with archive.open(_JSON, "w") as entry:
            entry.write(json.dumps(about, indent=1).encode())
        for number, array in enumerate(arrays):
            archive.compression = zipfile.ZIP_DEFLATED if _is_halved(array) else zipfile.ZIP_STORED
            with archive.open(f"{number}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _is_halved(array: np.ndarray) -> bool:
    start = np.asarray(array.flat[:_FIRST]).tobytes()
    return array.nbytes < _LARGE and len(zlib.compress(start, 1)) < len(start) / 2


class Archive(dict[str, Any]):
    """A file written by `write_archive`; it stays open, so that all its parts come from one save.

    Raises ValueError for any other file, before memory is allocated. `path` is shown in errors.
    """

    def __init__(self, file: BinaryIO, path: object = "") -> None:
        self.path = path
        self._read: dict[int, np.ndarray] = {}
        try:
            self.zip = zipfile.ZipFile(file)
            check_unpacked(self.zip)
            if self.zip.getinfo(_JSON).file_size > MOST:
                raise ValueError(f"{_JSON} is too large")
            super().__init__(read_json(self.zip.read(_JSON)))
        except BaseException as error:
            file.close()
            if isinstance(error, UNREADABLE):
                raise ValueError(str(error)) from None
            raise
        weakref.finalize(self, file.close)

    def array(self, number: int) -> np.ndarray:
        """Array `number`, read once, with its checksum verified.

        Raises ValueError if it is damaged, IndexError if there is none.
        """
        if number not in self._read:
            name = f"{number}.npy"
            if name not in self.zip.NameToInfo:
                raise IndexError(f"there is no array {number}")
            try:
                self._read[number] = read_entry(self.zip, name)
            except UNREADABLE as error:
                raise ValueError(f"{name}: {error}") from None
        return self._read[number]
