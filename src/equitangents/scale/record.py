"""Create, validate or extend a Gram store: its record identifies the matrix and its program; others raise StoreError.

The record is in the store's `zarr.json` files, along with Zarr's own entries: the group's, and that of each array of
kernels. All files follow from the record, so that a damaged one can be rewritten from another.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equitangents._types import Numbers
from equitangents._version import FORMAT, __version__
from equitangents.errors import InvalidArgumentError, ShapeError, StoreError
from equitangents.files import LEFTOVER, locked
from equitangents.foreign_files import read_json
from equitangents.kernels import KernelFunction
from equitangents.kernels.program import VERSION
from equitangents.precision import working_dtype
from equitangents.scale.chunks import Chunks, TileGrid, ZarrTiles, side_of_tile
from equitangents.scale.identity import checksum, engine_of, network_hash, rows_digest, rows_of
from equitangents.scale.place import ObjectPath, Place, content, remove_all, write_whole
from equitangents.scale.reading import LazyArray
from equitangents.validation import check_unmasked

FIELDS = ("nngp", "ntk")
NAME = "zarr.json"
KEY = "equitangents"  # of the record among the attributes
Data = dict[str, LazyArray]  # the inputs x1 and perhaps x2 by name


@dataclass(frozen=True)
class InputsRecord:
    """A set of inputs of one `shape`: their number and hash."""

    shape: tuple[int, ...]
    count: int
    digest: str


@dataclass(frozen=True)
class Record:
    """Everything that determines the numbers of a store; `network` is its description."""

    network: str
    network_hash: str
    x1: InputsRecord
    x2: InputsRecord | None
    engine: str
    precision: str
    tile: int
    version: str = __version__
    numbers: int = VERSION
    format: int = FORMAT

    @property
    def inputs(self) -> dict[str, InputsRecord]:
        """The inputs by name, "x1" and, if there are two sets, "x2"."""
        return {"x1": self.x1} | ({} if self.x2 is None else {"x2": self.x2})

    def arrays(self, path: Place) -> dict[str, Chunks]:
        """The arrays of the store at `path` by name: the kernels `nngp` and `ntk`, and the inputs."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(FIELDS, (self.tile, self.tile))
        shapes |= {name: (self.tile, *x.shape) for name, x in self.inputs.items()}
        return {name: Chunks(path / name, shape, np.dtype(self.precision)) for name, shape in shapes.items()}

    def tiles(self, path: Place) -> ZarrTiles:
        """The tiles of both kernels, as files."""
        arrays = self.arrays(path)
        return ZarrTiles({name: arrays[name] for name in FIELDS}, self.grid)

    @property
    def grid(self) -> TileGrid:
        """The tiles of the matrix."""
        return TileGrid(self.x1.count, None if self.x2 is None else self.x2.count, self.tile)

    def as_json(self) -> dict[str, Any]:
        """The record as JSON with a checksum, for `from_json`."""
        record = json.loads(json.dumps(dataclasses.asdict(self)))
        return {"record": record, "sha256": checksum(record)}

    @staticmethod
    def from_json(value: Any) -> Record:
        """The record; ValueError if the value is none, or its checksum is wrong."""
        held = value.get("record") if isinstance(value, dict) else None
        if not isinstance(held, dict) or checksum(held) != value.get("sha256"):
            raise ValueError("the record does not have its checksum")
        if held.get("format") != FORMAT:
            raise StoreError(
                "store", held.get("format"), FORMAT, "compute it again in another folder", verb="has format"
            )
        inputs = {
            name: None if held[name] is None else InputsRecord(**{**held[name], "shape": tuple(held[name]["shape"])})
            for name in ("x1", "x2")
        }
        plain: dict[str, Any] = {**held, **inputs}
        record = Record(**plain)
        sizes = [record.tile, *(n for x in record.inputs.values() for n in (*x.shape, x.count))]
        # a checksum says that nothing has changed, not who wrote it; all else is only compared
        if not all(type(n) is int and n > 0 for n in sizes) or record.precision not in ("float32", "float64"):
            raise ValueError("the record has entries that nothing has")
        return record


def _compared(record: Record) -> dict[str, object]:
    """The entries that must agree between two records; data are compared separately."""
    shapes = {f"shape of a row of {name}": x.shape for name, x in record.inputs.items()}
    names = {"network": record.network_hash, "engine": record.engine, "precision": record.precision}
    return (
        names | {"version": (record.version, record.numbers), "tile": record.tile, "x2": record.x2 is not None} | shapes
    )


def metadata(path: Place, record: Record) -> dict[Place, bytes]:
    """The content of every `zarr.json`, by its folder; the store's own comes last."""
    about = {KEY: record.as_json()}
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(FIELDS, record.grid.shape)
    shapes |= {name: (x.count, *x.shape) for name, x in record.inputs.items()}
    texts = {
        path / name: chunks.metadata(shapes[name], about if name in FIELDS else {})
        for name, chunks in record.arrays(path).items()
    }
    texts[path] = {"zarr_format": 3, "node_type": "group", "attributes": about}
    return {folder: json.dumps(text, indent=1).encode() for folder, text in texts.items()}


def write_metadata(path: Place, record: Record) -> None:
    """Write every `zarr.json` whose content is missing or wrong."""
    for folder, text in metadata(path, record).items():
        with suppress(FileNotFoundError, IsADirectoryError):
            if content(folder / NAME) == text:
                continue
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NAME, text)


def read_record(path: Place) -> Record | None:
    """The record of the store at `path`; if its own is damaged, the copy of an array that has the most rows.

    An intact store needs one file read. None if nothing is there; StoreError for a folder that holds something
    else, or no intact copy.
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
    """Whether something is there, other than an empty folder or unfinished files of dead processes."""
    if isinstance(path, ObjectPath) or not path.is_dir():
        return path.exists()
    return not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir())


def _record_in(folder: Place) -> Record | None:
    """The record in the `zarr.json` of one folder; None if there is none, or it is damaged."""
    try:
        return Record.from_json(read_json(content(folder / NAME))["attributes"][KEY])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise StoreError("path", str(folder), "a folder that can be read", str(error.strerror or error)) from None


def opened(name: str, x: Numbers | LazyArray) -> LazyArray:
    """An array whose rows can be read: NumPy's, a memory map, Zarr's; anything else is converted by NumPy."""
    check_unmasked(name, x)
    rows = x if isinstance(x, LazyArray) else np.asarray(x)
    shape = tuple(rows.shape)
    if len(shape) > 1 and shape[0] == 0:
        raise ShapeError(name, shape, "at least one input")
    if len(shape) < 2 or 0 in shape:
        raise ShapeError(name, shape, "(N, channels) or (N, *positions, channels)")
    return rows


def precision_of(precision: str | None, data: Data) -> np.dtype:
    """The requested precision; by default float32 if all inputs are, else float64."""
    if precision is None:
        return working_dtype(*data.values())
    if precision not in ("float32", "float64"):
        raise InvalidArgumentError("precision", precision, "'float32' or 'float64'")
    return np.dtype(precision)


def problem(net: KernelFunction, data: Data, tile: int | None, dtype: np.dtype) -> Record:
    """The record of a new store for the kernels of `data`; ShapeError and InvalidTypeError for invalid data.

    `tile` None: a side that suits the network and the numbers of inputs.
    """
    x1, x2 = data["x1"], data.get("x2")
    shape = tuple(x1.shape[1:])
    if x2 is not None and tuple(x2.shape[1:]) != shape:
        raise ShapeError("x2", tuple(x2.shape), ("N", *shape), "give inputs of the shape of x1")
    inputs = {
        name: InputsRecord(shape, x.shape[0], rows_digest(name, x, dtype, x.shape[0])) for name, x in data.items()
    }
    return Record(
        network=repr(net),
        network_hash=network_hash(net, shape),
        x1=inputs["x1"],
        x2=inputs.get("x2"),
        engine=engine_of(net, shape, dtype),
        precision=dtype.name,
        tile=tile or side_of_tile(net, shape, dtype, x1.shape[0], None if x2 is None else x2.shape[0]),
    )


def open_store(path: Place, wanted: Record, data: Data) -> Record:
    """The record of the store at `path`, which then holds the kernels of `data`, computed or not.

    `wanted` is the record of a new store. StoreError if the store there belongs to another problem.
    """
    stored = read_record(path)
    fresh = stored is None
    if stored is None:
        stored = _make(path, wanted)
    record = _joined(path, stored, wanted, data)
    if record == stored:
        try:
            write_inputs(path, record, data)
            write_metadata(path, record)
        except OSError:
            if fresh and not any((path / name / "c").exists() for name in FIELDS):  # a full disk is not left fuller
                remove_all(path)
            raise
        return record
    if isinstance(path, ObjectPath):
        remedy = "an object store has no locks: add rows to a store in a folder, or give another path"
        raise StoreError("store", str(path), "all rows that it will ever have", remedy)
    with locked(path / FIELDS[0] / ".growing", f"rows are added to the store in {path} by another process; try again"):
        stored = read_record(path) or stored
        record = _joined(path, stored, wanted, data)
        write_inputs(path, record, data, known={name: x.count for name, x in stored.inputs.items()})
        tiles = stored.tiles(path)
        for tile in stored.grid.tiles():  # those that grow are computed whole
            ends = zip(stored.grid.spans(tile), stored.grid.shape, record.grid.shape, strict=True)
            if any(span.stop == before < after and before % record.tile for span, before, after in ends):
                tiles.remove(tile)
        write_metadata(path, record)
    return record


def write_inputs(
    path: Place, record: Record, data: Data, *, known: Mapping[str, int] | None = None, thorough: bool = False
) -> None:
    """Write missing inputs: those beyond `known` rows, or, if `thorough`, all that differ from `data`."""
    for name, about in record.inputs.items():
        chunks, tile, count = record.arrays(path)[name], record.tile, about.count
        chunks.folder.mkdir(parents=True, exist_ok=True)
        indices = [(index, *(0,) * len(about.shape)) for index in range(-(-count // tile))]
        lacking = set(chunks.missing(indices))
        for index in indices:
            rows = slice(index[0] * tile, min((index[0] + 1) * tile, count))
            wrong = index in lacking or rows.stop > (known or {}).get(name, count)
            if wrong or thorough:
                values = rows_of(name, data[name], rows, chunks.dtype)
                if wrong or not _holds(chunks, index, values):
                    chunks.write(index, values)


def _holds(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> bool:
    try:
        return np.array_equal(chunks.read(index)[: len(values)], values)
    except (ValueError, FileNotFoundError):
        return False


def _make(path: Place, record: Record) -> Record:
    """Write the record of a new store, once; a process that comes second uses the existing one.

    `open_store` adds missing files, whoever made the store.
    """
    text = metadata(path, record)[path]
    stored: Record | None = record
    try:
        write_whole(path / NAME, text, once=True)
    except FileExistsError:
        stored = read_record(path)
    if stored is None:
        raise StoreError("store", str(path), "to stay", "it was removed while it was made; try again")
    return stored


def _joined(path: Place, stored: Record, wanted: Record, data: Data) -> Record:
    """The stored record extended by new rows of `data`; StoreError if it belongs to another problem."""
    there, here = _compared(stored), _compared(wanted)
    remedy = f"the store in {path} is of another problem, {stored.network}: give another path"
    for name, value in here.items():
        if value != there.get(name):
            raise StoreError(name, value, there.get(name), remedy)
    grown = dict[str, InputsRecord]()
    for name, known in stored.inputs.items():
        new, rows = wanted.inputs[name], known.count
        count, dtype = new.count, np.dtype(stored.precision)
        if count < rows:
            raise StoreError(name, count, f"at least {rows}", remedy, verb="has rows,")
        if known.digest != (new.digest if count == rows else rows_digest(name, data[name], dtype, rows)):
            raise StoreError(name, rows, "those of the store", remedy, verb="has other values in the first rows,")
        if count > rows:
            grown[name] = new
    return replace(stored, **grown)  # type: ignore[arg-type]
