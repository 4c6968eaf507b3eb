"""The `zarr.json` files of a store: what Zarr asks for, and the record, in the group and in each array of kernels.

All follow from the record, so that a damaged one is written again from another.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from equitangents.claims import read_json
from equitangents.errors import StoreError
from equitangents.scale.chunks import PARTIAL, Chunks
from equitangents.scale.record import Inputs, Record
from equitangents.scale.whole import write_whole

NAME = "zarr.json"
KEY = "equitangents"  # of the record among the attributes
FIELDS = ("nngp", "ntk")


def arrays(path: Path, record: Record) -> dict[str, Chunks]:
    """The arrays of a store by name: the kernels `nngp` and `ntk`, the inputs `x1` and perhaps `x2`."""
    dtype = np.dtype(record.precision)
    kernels = {name: Chunks(path / name, record.grid.chunk, dtype) for name in FIELDS}
    given = {name: Chunks(path / name, (record.tile, *x.shape), dtype) for name, x in inputs(record).items()}
    return kernels | given


def inputs(record: Record) -> dict[str, Inputs]:
    """The inputs by name."""
    return {"x1": record.x1} | ({} if record.x2 is None else {"x2": record.x2})


def write_metadata(path: Path, record: Record, repair: bool = True) -> list[Path]:
    """Write every `zarr.json` that is not as it must be, unless `repair` is False; returns those that were not."""
    differing = []
    about = {KEY: record.as_json()}
    shapes = {name: record.grid.shape for name in FIELDS} | {
        name: (x.rows[-1], *x.shape) for name, x in inputs(record).items()
    }
    texts = {
        path / name: chunks.metadata(shapes[name], about if name in FIELDS else {})
        for name, chunks in arrays(path, record).items()
    }
    texts[path] = {"zarr_format": 3, "node_type": "group", "attributes": about}
    for folder, content in texts.items():
        text = json.dumps(content, indent=1).encode()
        file = folder / NAME
        if not (file.is_file() and file.read_bytes() == text):
            if repair:
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(file, [text], path / FIELDS[0] / PARTIAL)
            differing.append(file)
    return differing


def read_record(path: Path) -> Record | None:
    """The record of the store in `path`, from whichever copy is whole and knows the most rows.

    None where there is nothing; StoreError for a folder that holds something else, or no whole copy.
    """
    found: list[Record] = []
    for folder in (path, *(path / name for name in FIELDS)):
        try:
            content = read_json((folder / NAME).read_bytes())
            found.append(Record.from_json(content["attributes"][KEY]))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ValueError, KeyError, TypeError):  # damaged, or of something else
            continue
        except OSError as error:
            raise StoreError(f"path is {str(path)!r}, which cannot be read: {error.strerror or error}") from None
    if found:
        return max(found, key=lambda record: record.rows)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoreError(
            f"path is {str(path)!r}, which holds something other than a store of equitangents, or one whose every "
            "record is damaged; give another path, or remove it"
        )
    return None
