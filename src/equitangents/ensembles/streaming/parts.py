"""Predictions under way: a folder of chunks of rows, each whole with its checksum or not there, and what they are of.

The folder is a Zarr group with one array for each thing that is predicted, in chunks of rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.claims import read_json
from equitangents.errors import StoreError
from equitangents.scale.chunks import PARTIAL, Chunks, DamagedChunkError
from equitangents.scale.whole import write_whole

_KEY = "equitangents"
_NAME = "zarr.json"
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

    folder: Path
    count: int
    rows: int
    arrays: dict[str, tuple[int, ...]]
    record: dict[str, Any]

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
            if self.folder.exists() and not (self.folder.is_dir() and _is_empty(self.folder)):
                raise StoreError(
                    f"{self.folder} is in the way: predictions under way are kept there; remove or rename it"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write_metadata({})
        for name in self.arrays:
            if not (self.folder / name / _NAME).is_file():
                (self.folder / name).mkdir(exist_ok=True)
                self.write_array_metadata(name, self.of(name))

    def write_metadata(self, more: Mapping[str, Any]) -> None:
        """Write what the whole folder is."""
        about = {"record": self.record, "sha256": _checksum(self.record)}
        content = {"zarr_format": 3, "node_type": "group", "attributes": {_KEY: about, **more}}
        write_whole(self.folder / _NAME, [json.dumps(content, indent=1).encode()], self.folder / PARTIAL)

    def write_array_metadata(self, name: str, chunks: Chunks) -> None:
        """Write what one array is, for readers of Zarr."""
        content = json.dumps(chunks.metadata((self.count, *chunks.shape[1:]), {}), indent=1).encode()
        write_whole(self.folder / name / _NAME, [content], self.folder / PARTIAL)

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

    def _index(self, name: str, chunk: int) -> tuple[int, ...]:
        return (chunk, *(0,) * len(self.arrays[name]))


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record of predictions in a folder, if it holds some."""
    try:
        about = read_json((folder / _NAME).read_bytes())["attributes"][_KEY]
        record: Any = about["record"]
        return record if isinstance(record, dict) and about["sha256"] == _checksum(record) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def _is_empty(folder: Path) -> bool:
    """Whether nothing is in a folder but what was being written first when its process died."""
    return all(path.name == PARTIAL for path in folder.iterdir())


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
