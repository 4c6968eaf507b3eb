"""What a store says about itself: whose kernel matrix it holds, computed by what. It refuses everything else.

The record stands in the `zarr.json` files of the store, beside what Zarr asks for: in the group's, and in that of each
array of kernels. All follow from the record, so that a damaged one is written again from another.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._version import FORMAT, __version__
from equitangents.checksums import checksum, differing
from equitangents.errors import StoreError
from equitangents.file_limits import read_json
from equitangents.files import LEFTOVER, PARTIAL, file_bytes, write_whole
from equitangents.kernels.store.key import VERSION
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Grid

FIELDS = ("nngp", "ntk")
NAME = "zarr.json"
KEY = "equitangents"  # of the record among the attributes
_LABELS = {
    "network_hash": "the network",
    "x1": "the data x1",
    "x2": "the data x2",
    "engine": "the engine",
    "precision": "the precision",
    "tile": "the side of a tile",
    "version": "the version of equitangents",
    "numbers": "the version of the numbers",
}


@dataclass(frozen=True)
class Inputs:
    """Inputs of one `shape`: how many there are, and their hash."""

    shape: tuple[int, ...]
    rows: int
    digest: str


@dataclass(frozen=True)
class Record:
    """Everything that the numbers of a store depend on; `network` in words, and by hash."""

    network: str
    network_hash: str
    x1: Inputs
    x2: Inputs | None
    engine: str
    precision: str
    tile: int
    version: str = __version__
    numbers: int = VERSION
    format: int = FORMAT

    @property
    def inputs(self) -> dict[str, Inputs]:
        """The inputs by name, "x1" and perhaps "x2"."""
        return {"x1": self.x1} | ({} if self.x2 is None else {"x2": self.x2})

    @property
    def grid(self) -> Grid:
        """The tiles of the matrix."""
        return Grid(self.x1.rows, None if self.x2 is None else self.x2.rows, self.tile)

    def arrays(self, path: Path) -> dict[str, Chunks]:
        """The arrays of the store in `path` by name: the kernels `nngp` and `ntk`, and the inputs."""
        dtype = np.dtype(self.precision)
        kernels = {name: Chunks(path / name, (self.tile, self.tile), dtype) for name in FIELDS}
        return kernels | {name: Chunks(path / name, (self.tile, *x.shape), dtype) for name, x in self.inputs.items()}

    def differences(self, asked: Record) -> str:
        """What is not the same in another record, with commas; empty where nothing is."""
        return differing(_LABELS, vars(self), vars(asked))

    def as_json(self) -> dict[str, Any]:
        """With a checksum, for `from_json`."""
        content = json.loads(json.dumps(dataclasses.asdict(self)))
        return {"record": content, "sha256": checksum(content)}

    @staticmethod
    def from_json(value: Any) -> Record:
        """The record; ValueError if that is not one, or does not have its checksum."""
        content = value.get("record") if isinstance(value, dict) else None
        if not isinstance(content, dict) or checksum(content) != value.get("sha256"):
            raise ValueError("the record does not have its checksum")
        if content.get("format") != FORMAT:
            raise StoreError(
                f"the store has format {content.get('format')}, and this version reads format {FORMAT}; compute it "
                "anew in another folder"
            )
        inputs = {name: Inputs(**content[name]) for name in ("x1", "x2") if content[name] is not None}
        inputs = {name: dataclasses.replace(x, shape=tuple(x.shape)) for name, x in inputs.items()}
        record = Record(**{**content, "x2": None, **inputs})
        record._check()
        return record

    def _check(self) -> None:
        """ValueError unless all is of its type: a checksum says that nothing has changed, not who wrote it."""
        given = list(self.inputs.values())
        text = [self.network, self.network_hash, self.engine, self.version, *(x.digest for x in given)]
        numbers = [self.tile, self.numbers, *(n for x in given for n in (*x.shape, x.rows))]
        if not all(isinstance(each, str) for each in text) or not all(type(each) is int for each in numbers):
            raise ValueError("the record has entries of other types")
        if min(numbers) < 0 or self.tile < 1:
            raise ValueError("the record has sizes that nothing has")
        if self.precision not in ("float32", "float64"):
            raise ValueError("the record has another precision")


def write_metadata(path: Path, record: Record, repair: bool = True) -> list[Path]:
    """Write every `zarr.json` that is not as it must be, unless `repair` is False; returns those that were not."""
    differing = []
    for folder, text in metadata(path, record).items():
        file = folder / NAME
        if not _holds(file, text):
            if repair:
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(file, text, path / FIELDS[0] / PARTIAL)
            differing.append(file)
    return differing


def metadata(path: Path, record: Record) -> dict[Path, bytes]:
    """What every `zarr.json` holds, by its folder; the store's own comes last."""
    about = {KEY: record.as_json()}
    shapes = {name: record.grid.shape for name in FIELDS} | {
        name: (x.rows, *x.shape) for name, x in record.inputs.items()
    }
    texts = {
        path / name: chunks.metadata(shapes[name], about if name in FIELDS else {})
        for name, chunks in record.arrays(path).items()
    }
    texts[path] = {"zarr_format": 3, "node_type": "group", "attributes": about}
    return {folder: json.dumps(content, indent=1).encode() for folder, content in texts.items()}


def read_record(path: Path) -> Record | None:
    """The record of the store in `path`; where its own is damaged, the copy of an array.

    One file is read of a store that is whole. None where there is nothing; StoreError for a folder that holds something
    else, or no whole copy.
    """
    found = next(filter(None, map(_record_in, (path, *(path / name for name in FIELDS)))), None)
    if found is None and _is_taken(path):
        found = _record_in(path)  # of a store that was made between both looks: its own record is there first
        if found is None:
            raise StoreError(
                f"path is {str(path)!r}, which holds something other than a store of equitangents, or one whose every "
                "record is damaged; give another path, or remove it"
            )
    return found


def _holds(file: Path, text: bytes) -> bool:
    try:
        return file_bytes(file) == text
    except (FileNotFoundError, IsADirectoryError):
        return False


def _is_taken(path: Path) -> bool:
    """Whether something is there; a folder that is empty, but for what a process was writing that died, is nothing."""
    if not path.is_dir():
        return path.exists()
    return not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir())


def _record_in(folder: Path) -> Record | None:
    """The record in the `zarr.json` of one folder; None where there is none, or none that is whole."""
    try:
        return Record.from_json(read_json(file_bytes(folder / NAME))["attributes"][KEY])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise StoreError(f"path is {str(folder)!r}, which cannot be read: {error.strerror or error}") from None
