"""Predictions under way: a folder of chunks of rows, each whole with its checksum or not there, and what they are of.

The record in the folder says whose it is: the last process to write one has it, and others are refused. Chunks lie in a
Zarr group within, one array for each thing that is predicted, which is named by its record: chunks of two models never
have one name, whoever writes them when.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.claims import read_json
from equitangents.errors import StoreError
from equitangents.tiles import place
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.place import ObjectPath, Place
from equitangents.tiles.records import checksum, differing
from equitangents.tiles.store import Tiles
from equitangents.tiles.whole import PARTIAL, write_whole

_KEY = "equitangents"
RECORD = "zarr.json"
_GROUP = re.compile("[0-9a-f]{16}")  # the name of a group: the first digits of its record's checksum
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


class OtherPredictionsError(StoreError):
    """Raised where the folder of predictions is, or has become, one of others."""


@dataclass(frozen=True)
class Parts(Tiles[int, dict[str, np.ndarray]]):
    """Chunks of `rows` rows of named arrays, `count` rows in all; `record` says what they are predictions of.

    zarr: whether they become a Zarr group. finished: whether `folder` is what has become of them, that group alone.
    """

    folder: Place
    count: int
    rows: int
    arrays: dict[str, tuple[int, ...]]
    record: dict[str, Any]
    zarr: bool = True
    finished: bool = False

    @property
    def group(self) -> Place:
        """The Zarr group of these predictions, which no others share."""
        return self.folder if self.finished else self.folder / self.checksum[:16]

    @property
    def checksum(self) -> str:
        """SHA-256 of the record."""
        return checksum(self.record)

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
        if there is None:
            if self.folder.exists() and not _is_empty(self.folder):
                raise StoreError(
                    f"{self.folder} is in the way: predictions under way are kept there; remove or rename it"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_record(self.folder, {})
        self.check()
        self.group.mkdir(exist_ok=True)
        for name in self.arrays:
            (self.group / name).mkdir(exist_ok=True)

    def check(self) -> None:
        """Raise StoreError where the folder is one of other predictions, FileNotFoundError where it is gone."""
        there = read_record(self.folder)
        if there is None:
            raise FileNotFoundError(errno.ENOENT, "what was predicted is gone", str(self.folder))
        if told := differing(_WORDS, there, self.record):
            raise OtherPredictionsError(
                f"{self.folder} holds parts of other predictions, which differ in {told}; nothing is "
                "mixed: give another path, or restart=True (--restart) to remove them"
            )

    def is_ours(self) -> bool:
        """Whether the folder is one of predictions, of whatever model and inputs."""
        return self.folder.is_dir() and (read_record(self.folder) is not None or _is_empty(self.folder))

    def describe(self, more: Mapping[str, Any]) -> None:
        """Write what the group and its arrays are, for readers of Zarr; chunks under way need none of it."""
        for name in self.arrays:
            self.write_array_metadata(name, self.of(name))
        self._write_record(self.group, more)

    def _write_record(self, group: Place, more: Mapping[str, Any]) -> None:
        content = json.dumps(self._about(more), indent=1).encode()
        write_whole(group / RECORD, [content], group / PARTIAL)

    def _about(self, more: Mapping[str, Any]) -> dict[str, Any]:
        about = {"record": self.record, "sha256": checksum(self.record), "more": checksum(more)}
        return {"zarr_format": 3, "node_type": "group", "attributes": {_KEY: about, **more}}

    def write_array_metadata(self, name: str, chunks: Chunks) -> None:
        """Write what one array is, for readers of Zarr."""
        write_whole(self.group / name / RECORD, [self._metadata(chunks)], self.group / PARTIAL)

    def _metadata(self, chunks: Chunks) -> bytes:
        return json.dumps(chunks.metadata((self.count, *chunks.shape[1:]), {}), indent=1).encode()

    def of(self, name: str, dtype: DType = np.float64) -> Chunks:
        """The files of one array."""
        return Chunks(self.group / name, (self.rows, *self.arrays.get(name, ())), np.dtype(dtype), portable=self.zarr)

    def is_there(self, chunk: int) -> bool:
        """Whether all arrays have their file of this chunk."""
        return all(self.of(name).is_there(self._index(name, chunk)) for name in self.arrays)

    def write(self, chunk: int, values: dict[str, np.ndarray]) -> None:
        """Write one chunk of every array."""
        for name in self.arrays:
            self.of(name).write(self._index(name, chunk), np.asarray(values[name], np.float64))

    def read(self, chunk: int) -> dict[str, np.ndarray]:
        """One chunk of every array; FileNotFoundError, or DamagedTileError."""
        span = self.span(chunk)
        whole = {name: self.of(name).read(self._index(name, chunk)) for name in self.arrays}
        return {name: values[: span.stop - span.start] for name, values in whole.items()}

    def is_whole(self) -> bool:
        """Whether every file of every array is as it was written."""
        content = read_json(place.content(self.group / RECORD))
        more = {name: value for name, value in content["attributes"].items() if name != _KEY}
        if content != self._about(more) or not all(self.is_described(name, self.of(name)) for name in self.arrays):
            return False
        return all(self.state(chunk) == "whole" for chunk in self.chunks)

    def is_described(self, name: str, chunks: Chunks) -> bool:
        """Whether what says what an array is, is as it was written."""
        return place.content(self.group / name / RECORD) == self._metadata(chunks)

    def _index(self, name: str, chunk: int) -> tuple[int, ...]:
        return (chunk, *(0,) * len(self.arrays[name]))


def read_record(folder: Place) -> dict[str, Any] | None:
    """The record of predictions in a folder, if it holds some."""
    try:
        about = read_json(place.content(folder / RECORD))["attributes"][_KEY]
        record: Any = about["record"]
        return record if isinstance(record, dict) and about["sha256"] == checksum(record) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def _is_empty(folder: Place) -> bool:
    """Whether nothing is in a folder but what processes left that died, or whose record was removed by another."""
    if isinstance(folder, ObjectPath):  # objects that died processes wrote late, after others had removed the parts
        return not folder.is_file()
    return folder.is_dir() and all(path.name == PARTIAL or _GROUP.fullmatch(path.name) for path in folder.iterdir())
