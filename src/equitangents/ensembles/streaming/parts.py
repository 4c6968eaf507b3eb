"""Predictions under way: a folder of chunks of rows, each whole with its checksum or not there, and what they are of.

The record in the folder says whose it is: the last process to write one has it, and others are refused. Chunks are .npz
files in a folder within, which is named by its record: chunks of two models never have one name, whoever writes them
when.
"""

from __future__ import annotations

import errno
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.checksums import checksum, differing
from equitangents.errors import StoreError
from equitangents.file_limits import UNREADABLE, check_arrays, read_json
from equitangents.tiles import place
from equitangents.tiles.place import PARTIAL, ObjectPath, Place, write_whole
from equitangents.tiles.store import DamagedTileError

_KEY = "equitangents"
RECORD = "zarr.json"
_GROUP = re.compile("[0-9a-f]{16}")  # the name of the folder within: the first digits of its record's checksum
_LABELS = {
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
class Parts:
    """Chunks of `rows` rows of named arrays, `count` rows in all; `record` says what they are predictions of."""

    folder: Place
    count: int
    rows: int
    arrays: dict[str, tuple[int, ...]]
    record: dict[str, Any]

    @property
    def group(self) -> Place:
        """The folder of these predictions within, which no others share."""
        return self.folder / self.checksum[:16]

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
                    "path", str(self.folder), "no folder in the way of predictions under way", "remove or rename it"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_record()
        self.check()
        self.group.mkdir(exist_ok=True)

    def check(self) -> None:
        """Raise StoreError where the folder is one of other predictions, FileNotFoundError where it is gone."""
        there = read_record(self.folder)
        if there is None:
            raise FileNotFoundError(errno.ENOENT, "what was predicted is gone", str(self.folder))
        if labels := differing(_LABELS, there, self.record):
            raise OtherPredictionsError(
                f"{self.folder} holds parts of other predictions, which differ in {labels}; nothing is "
                "mixed: give another path, or restart=True (--restart) to remove them"
            )

    def is_ours(self) -> bool:
        """Whether the folder is one of predictions, of whatever model and inputs."""
        return self.folder.is_dir() and (read_record(self.folder) is not None or _is_empty(self.folder))

    def _write_record(self) -> None:
        write_whole(self.folder / RECORD, self.described({}), self.folder / PARTIAL)

    def described(self, more: Mapping[str, Any]) -> bytes:
        """The `zarr.json` of a group that holds these predictions, with the attributes `more`."""
        about = {"record": self.record, "sha256": checksum(self.record), "more": checksum(more)}
        group = {"zarr_format": 3, "node_type": "group", "attributes": {_KEY: about, **more}}
        return json.dumps(group, indent=1).encode()

    def path(self, chunk: int) -> Place:
        """The file of one chunk."""
        return self.group / f"{chunk}.npz"

    def missing(self, chunks: Iterable[int]) -> list[int]:
        """Chunks whose file is missing."""
        return [chunk for chunk in chunks if not self.path(chunk).is_file()]

    def write(self, chunk: int, values: dict[str, np.ndarray]) -> None:
        """Write one chunk of every array, whole."""
        file = io.BytesIO()
        np.savez(file, **{name: np.asarray(values[name], np.float64) for name in self.arrays})  # type: ignore[arg-type]
        write_whole(self.path(chunk), file.getvalue(), self.group / PARTIAL)

    def read(self, chunk: int) -> dict[str, np.ndarray]:
        """One chunk of every array; FileNotFoundError, or DamagedTileError."""
        path, span = self.path(chunk), self.span(chunk)
        content = path.read_bytes()
        try:
            check_arrays(io.BytesIO(content))
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                values = {name: archive[name] for name in self.arrays}
        except UNREADABLE as error:
            raise DamagedTileError(f"{path} is damaged: {error}") from None
        if any(values[name].shape != (span.stop - span.start, *shape) for name, shape in self.arrays.items()):
            raise DamagedTileError(f"{path} holds other arrays")
        return values


def attributes(group: Place) -> dict[str, Any]:
    """The attributes of a Zarr group, without ours; ValueError and others where it has none."""
    found = read_json(place.content(group / RECORD))["attributes"]
    return {name: value for name, value in found.items() if name != _KEY}


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
