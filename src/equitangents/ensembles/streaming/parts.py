"""Predictions under way: a folder of chunks of rows, each whole with its checksum or not there, and what they are of.

The folder is a Zarr group with one array for each thing that is predicted, in chunks of rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.claims import read_json
from equitangents.errors import StoreError
from equitangents.scale.chunks import PARTIAL, Chunks, DamagedChunkError
from equitangents.scale.place import ObjectPath, Place
from equitangents.scale.whole import write_whole

_KEY = "equitangents"
RECORD = "zarr.json"
_WORDS = {
    "fingerprint": "the model",
    "inputs": "the inputs",
    "count": "the number of inputs",
    "rows": "the rows of a chunk",
    "time": "the training time",
    "arrays": "what is predicted",
    "version": "the version of equitangents",
    "numbers": "the version of the numbers",
}


@dataclass(frozen=True)
class Parts:
    """Chunks of `rows` rows of named arrays, `count` rows in all; `record` says what they are predictions of."""

    folder: Place
    count: int
    rows: int
    arrays: dict[str, tuple[int, ...]]
    record: dict[str, Any]

    @property
    def checksum(self) -> str:
        """Of what they are of."""
        return _checksum(self.record)

    @property
    def chunks(self) -> range:
        """All chunks by number."""
        return range(-(-self.count // self.rows))

    def span(self, chunk: int) -> slice:
        """The rows of one chunk."""
        return slice(chunk * self.rows, min((chunk + 1) * self.rows, self.count))

    def open(self) -> None:
        """Make the folder, or go on in one with the same record; StoreError for one with another."""
        there = read_record(self.folder)
        if there is not None:
            told = [words for name, words in _WORDS.items() if there.get(name) != self.record[name]]
            if told:
                raise StoreError(
                    f"{self.folder} holds parts of other predictions, which differ in {', '.join(told)}; nothing is "
                    "mixed: give another path, or restart=True (--restart) to remove them"
                )
        else:
            if self.folder.exists() and not _is_empty(self.folder):
                raise StoreError(
                    f"{self.folder} is in the way: predictions under way are kept there; remove or rename it"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write_metadata({})
        for name in self.arrays:
            if not (self.folder / name / RECORD).is_file():
                (self.folder / name).mkdir(exist_ok=True)
                self.write_array_metadata(name, self.of(name))

    def is_ours(self) -> bool:
        """Whether the folder is one of predictions, of whatever model and inputs."""
        return self.folder.is_dir() and (read_record(self.folder) is not None or _is_empty(self.folder))

    def write_metadata(self, more: Mapping[str, Any]) -> None:
        """Write what the whole folder is."""
        content = json.dumps(self._about(more), indent=1).encode()
        write_whole(self.folder / RECORD, [content], self.folder / PARTIAL)

    def _about(self, more: Mapping[str, Any]) -> dict[str, Any]:
        about = {"record": self.record, "sha256": _checksum(self.record), "more": _checksum(more)}
        return {"zarr_format": 3, "node_type": "group", "attributes": {_KEY: about, **more}}

    def write_array_metadata(self, name: str, chunks: Chunks) -> None:
        """Write what one array is, for readers of Zarr."""
        write_whole(self.folder / name / RECORD, [self._metadata(chunks)], self.folder / PARTIAL)

    def _metadata(self, chunks: Chunks) -> bytes:
        return json.dumps(chunks.metadata((self.count, *chunks.shape[1:]), {}), indent=1).encode()

    def of(self, name: str, dtype: DType = np.float64) -> Chunks:
        """The files of one array."""
        return Chunks(self.folder / name, (self.rows, *self.arrays.get(name, ())), np.dtype(dtype))

    def is_there(self, chunk: int) -> bool:
        """Whether all arrays have their file of this chunk."""
        return all(self.of(name).is_there(self._index(name, chunk)) for name in self.arrays)

    def write(self, chunk: int, values: Mapping[str, np.ndarray]) -> None:
        """Write one chunk of every array."""
        for name in self.arrays:
            self.of(name).write(self._index(name, chunk), np.asarray(values[name], np.float64))

    def read(self, chunk: int) -> dict[str, np.ndarray] | None:
        """One chunk of every array; None where a file is damaged or gone."""
        span = self.span(chunk)
        try:
            whole = {name: self.of(name).read(self._index(name, chunk)) for name in self.arrays}
        except (DamagedChunkError, FileNotFoundError):
            return None
        return {name: values[: span.stop - span.start] for name, values in whole.items()}

    def is_whole(self) -> bool:
        """Whether every file of every array is as it was written."""
        content = json.loads((self.folder / RECORD).read_bytes())
        more = {name: value for name, value in content["attributes"].items() if name != _KEY}
        if content != self._about(more) or not all(self.is_described(name, self.of(name)) for name in self.arrays):
            return False
        return all(self.read(chunk) is not None for chunk in self.chunks)

    def is_described(self, name: str, chunks: Chunks) -> bool:
        """Whether what says what an array is, is as it was written."""
        return (self.folder / name / RECORD).read_bytes() == self._metadata(chunks)

    def _index(self, name: str, chunk: int) -> tuple[int, ...]:
        return (chunk, *(0,) * len(self.arrays[name]))


def read_record(folder: Place) -> dict[str, Any] | None:
    """The record of predictions in a folder, if it holds some."""
    try:
        about = read_json((folder / RECORD).read_bytes())["attributes"][_KEY]
        record: Any = about["record"]
        return record if isinstance(record, dict) and about["sha256"] == _checksum(record) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def _is_empty(folder: Place) -> bool:
    """Whether nothing is in a folder but what was being written first when its process died."""
    if isinstance(folder, ObjectPath):  # objects that died processes wrote late, after others had removed the parts
        return not folder.is_file()
    return folder.is_dir() and all(path.name == PARTIAL for path in folder.iterdir())


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
