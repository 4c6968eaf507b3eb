"""What a store says about itself: whose Gram matrix it holds, computed by what. It refuses everything else.

The record stands in the `zarr.json` files of the store, beside what Zarr asks for: in the group's, and in that of each
array of kernels. All follow from the record, so that a damaged one is written again from another.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._version import FORMAT, __version__
from equitangents.checksums import checksum
from equitangents.errors import StoreError
from equitangents.file_limits import read_json
from equitangents.files import LEFTOVER
from equitangents.kernels.store import VERSION
from equitangents.tiles import place
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Grid
from equitangents.tiles.place import PARTIAL, ObjectPath, Place, write_together

FIELDS = ("nngp", "ntk")
NAME = "zarr.json"
KEY = "equitangents"  # of the record among the attributes


@dataclass(frozen=True)
class Inputs:
    """Some inputs of one `shape`: how many there were at first and after each addition, and the hash of so many."""

    shape: tuple[int, ...]
    rows: tuple[int, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """Everything that the numbers of a store depend on; `network` and `action` in words, and by hash."""

    network: str
    network_hash: str
    action: str | None
    action_hash: str | None
    x1: Inputs
    x2: Inputs | None
    engine: str
    precision: str
    tile: int
    inverses: tuple[int, ...] | None
    version: str = __version__
    numbers: int = VERSION
    format: int = FORMAT

    @property
    def inputs(self) -> dict[str, Inputs]:
        """The inputs by name, "x1" and perhaps "x2"."""
        return {"x1": self.x1} | ({} if self.x2 is None else {"x2": self.x2})

    def arrays(self, path: Place) -> dict[str, Chunks]:
        """The arrays of the store in `path` by name: the kernels `nngp` and `ntk`, and the inputs."""
        shapes = dict.fromkeys(FIELDS, self.grid.chunk) | {n: (self.tile, *x.shape) for n, x in self.inputs.items()}
        return {name: Chunks(path / name, shape, np.dtype(self.precision)) for name, shape in shapes.items()}

    @property
    def grid(self) -> Grid:
        """The tiles of the matrix."""
        return Grid(self.x1.rows, None if self.x2 is None else self.x2.rows, self.tile, self.inverses)

    def grew_from(self, other: Record) -> bool:
        """Whether it is the other one, perhaps with rows added."""
        if differences(other, self):
            return False
        pairs = [(self.inputs[name], there) for name, there in other.inputs.items()]
        return all(
            (one.rows[: len(two.rows)], one.digests[: len(two.rows)]) == (two.rows, two.digests) for one, two in pairs
        )

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
                "store", content.get("format"), FORMAT, "compute it anew in another folder", verb="has format"
            )
        plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
        for name in ("x1", "x2"):
            if plain[name] is not None:
                plain[name] = Inputs(**{key: tuple(v) for key, v in plain[name].items()})
        record = Record(**plain)
        record._check()
        return record

    def _check(self) -> None:
        """ValueError unless all is of its type: a checksum says that nothing has changed, not who wrote it."""
        given = list(self.inputs.values())
        text = [self.network, self.network_hash, self.engine, self.precision, self.version]
        text += [each for each in (self.action, self.action_hash) if each is not None]
        text += [digest for x in given for digest in x.digests]
        numbers = [self.tile, self.numbers, *(n for x in given for n in (*x.shape, *x.rows)), *(self.inverses or ())]
        if not all(isinstance(each, str) for each in text) or not all(type(each) is int for each in numbers):
            raise ValueError("the record has entries of other types")
        if min(numbers) < 0 or self.tile < 1 or not all(x.rows for x in given):
            raise ValueError("the record has sizes that nothing has")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"the record's precision is {self.precision!r}")


def differences(stored: Record, asked: Record) -> list[str]:
    """What is not the same, each as a phrase; the data are compared elsewhere."""
    one, two = _compared(stored), _compared(asked)
    return [
        f"{label}: {one[label][0]} there, {two[label][0]} here" for label in one if one[label][-1] != two[label][-1]
    ]


def _compared(record: Record) -> dict[str, tuple[object, ...]]:
    """What two records have to agree in, by its label: (what is shown, what is compared), or one for both."""
    return {
        "the network": (f"{record.network} ({record.network_hash})", record.network_hash),
        "the action": (record.action and f"{record.action} ({record.action_hash})",),
        "the engine": (record.engine,),
        "the precision": (record.precision,),
        "the version of equitangents": (record.version,),
        "the version of the numbers": (record.numbers,),
        "the side of a tile": (record.tile,),
        "the shape of the inputs x1": (record.x1.shape,),
        "the columns, the shape of the inputs x2": (record.x2 and record.x2.shape,),
    }


def metadata(path: Place, record: Record) -> dict[Place, bytes]:
    """What every `zarr.json` holds, by its folder; the store's own comes last."""
    about = {KEY: record.as_json()}
    shapes = dict.fromkeys(FIELDS, record.grid.shape)
    shapes |= {name: (x.rows[-1], *x.shape) for name, x in record.inputs.items()}
    texts = {
        path / name: chunks.metadata(shapes[name], about if name in FIELDS else {})
        for name, chunks in record.arrays(path).items()
    }
    texts[path] = {"zarr_format": 3, "node_type": "group", "attributes": about}
    return {folder: json.dumps(content, indent=1).encode() for folder, content in texts.items()}


def write_metadata(path: Place, record: Record, repair: bool = True) -> list[Place]:
    """Write every `zarr.json` that is not as it must be, unless `repair` is False; returns those that were not."""
    differing = []
    for folder, text in metadata(path, record).items():
        file = folder / NAME
        try:
            right = place.content(file) == text
        except (FileNotFoundError, IsADirectoryError):
            right = False
        if not right:
            differing.append(file)
            if repair:
                folder.mkdir(parents=True, exist_ok=True)
                write_together([(file, path / FIELDS[0] / PARTIAL, text)])
    return differing


def read_record(path: Place) -> Record | None:
    """The record of the store in `path`; where its own is damaged, the copy of an array that knows the most rows.

    One file is read of a store that is whole. None where there is nothing; StoreError for a folder that holds something
    else, or no whole copy.
    """
    copies = (_record_in(path / name) for name in FIELDS)
    found = _record_in(path) or max(filter(None, copies), key=lambda record: record.grid.shape, default=None)
    if found is not None or not _is_taken(path):
        return found
    found = _record_in(path)  # of a store that was made between both looks: its own record is there first
    if found is None:
        raise StoreError(
            "path", str(path), "a store of equitangents with an undamaged record", "give another path, or remove it"
        )
    return found


def _is_taken(path: Place) -> bool:
    """Whether something is there; a folder that is empty, but for what a process was writing that died, is nothing."""
    if isinstance(path, ObjectPath) or not path.is_dir():
        return path.exists()
    return not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir())


def _record_in(folder: Place) -> Record | None:
    """The record in the `zarr.json` of one folder; None where there is none, or none that is whole."""
    try:
        return Record.from_json(read_json(place.content(folder / NAME))["attributes"][KEY])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise StoreError("path", str(folder), "a folder that can be read", str(error.strerror or error)) from None
