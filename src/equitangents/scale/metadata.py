"""The `zarr.json` files of a store: what Zarr asks for, and the record, in the group and in each array of kernels.

All follow from the record, so that a damaged one is written again from another.
"""

from __future__ import annotations

import json

import numpy as np

from equitangents.claims import read_json
from equitangents.errors import StoreError
from equitangents.scale.chunks import PARTIAL, Chunks
from equitangents.scale.place import ObjectPath, Place
from equitangents.scale.record import Inputs, Record
from equitangents.scale.whole import write_whole

NAME = "zarr.json"
KEY = "equitangents"  # of the record among the attributes
FIELDS = ("nngp", "ntk")


def arrays(path: Place, record: Record) -> dict[str, Chunks]:
    """The arrays of a store by name: the kernels `nngp` and `ntk`, the inputs `x1` and perhaps `x2`."""
    dtype = np.dtype(record.precision)
    chunk = record.grid.chunk
    inner = None if record.part is None else (*chunk[:-2], record.part, record.part)
    kernels = {name: Chunks(path / name, chunk, dtype, inner) for name in FIELDS}
    given = {name: Chunks(path / name, (record.tile, *x.shape), dtype) for name, x in inputs(record).items()}
    return kernels | given


def inputs(record: Record) -> dict[str, Inputs]:
    """The inputs by name."""
    return {"x1": record.x1} | ({} if record.x2 is None else {"x2": record.x2})


def write_metadata(path: Place, record: Record, repair: bool = True) -> list[Place]:
    """Write every `zarr.json` that is not as it must be, unless `repair` is False; returns those that were not."""
    differing = []
    for folder, text in _texts(path, record).items():
        file = folder / NAME
        if not _holds(file, text):
            if repair:
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(file, [text], path / FIELDS[0] / PARTIAL)
            differing.append(file)
    return differing


def root_metadata(path: Place, record: Record) -> bytes:
    """What the `zarr.json` of the store itself holds."""
    return _texts(path, record)[path]


def _texts(path: Place, record: Record) -> dict[Place, bytes]:
    """What every `zarr.json` holds, by its folder; the store's own comes last."""
    about = {KEY: record.as_json()}
    shapes = {name: record.grid.shape for name in FIELDS} | {
        name: (x.rows[-1], *x.shape) for name, x in inputs(record).items()
    }
    texts = {
        path / name: chunks.metadata(shapes[name], about if name in FIELDS else {})
        for name, chunks in arrays(path, record).items()
    }
    texts[path] = {"zarr_format": 3, "node_type": "group", "attributes": about}
    return {folder: json.dumps(content, indent=1).encode() for folder, content in texts.items()}


def _holds(file: Place, text: bytes) -> bool:
    try:
        return file.read_bytes() == text
    except (FileNotFoundError, IsADirectoryError):
        return False


def read_record(path: Place) -> Record | None:
    """The record of the store in `path`; where its own is damaged, the copy of an array that knows the most rows.

    One file is read of a store that is whole. None where there is nothing; StoreError for a folder that holds something
    else, or no whole copy.
    """
    found = _record_in(path) or max(
        filter(None, (_record_in(path / name) for name in FIELDS)), key=lambda record: record.rows, default=None
    )
    if found is None and _is_taken(path):
        raise StoreError(
            f"path is {str(path)!r}, which holds something other than a store of equitangents, or one whose every "
            "record is damaged; give another path, or remove it"
        )
    return found


def _is_taken(path: Place) -> bool:
    """Whether something is there; an empty folder is nothing."""
    if isinstance(path, ObjectPath) or not path.is_dir():
        return path.exists()
    return any(path.iterdir())


def _record_in(folder: Place) -> Record | None:
    """The record in the `zarr.json` of one folder; None where there is none, or none that is whole."""
    try:
        return Record.from_json(read_json((folder / NAME).read_bytes())["attributes"][KEY])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise StoreError(f"path is {str(folder)!r}, which cannot be read: {error.strerror or error}") from None
