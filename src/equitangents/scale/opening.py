"""Opening a store: it is made where there is none, completed where it lacks inputs, and refused to other problems."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError, ShapeError, StoreError
from equitangents.file_limits import Rows
from equitangents.files import whole_file
from equitangents.kernels import KernelFunction
from equitangents.precision import working_dtype
from equitangents.scale.cost import side_of_tile
from equitangents.scale.identity import engine_of, network_hash, row_digest, rows_of
from equitangents.scale.record import FIELDS, NAME, Inputs, Record, metadata, read_record, write_metadata
from equitangents.tiles.chunks import Chunks
from equitangents.validation import check_unmasked

Data = dict[str, Rows]  # the inputs x1 and perhaps x2 by name


def opened(name: str, x: Numbers | Rows) -> Rows:
    """An array whose rows can be read: NumPy's, a memory map, Zarr's; of others a NumPy array."""
    check_unmasked(name, x)
    rows = x if isinstance(x, Rows) else np.asarray(x)
    shape = tuple(rows.shape)
    if len(shape) > 1 and shape[0] == 0:
        raise ShapeError(f"{name} has shape {shape}: it holds no inputs")
    if len(shape) < 2 or 0 in shape:
        raise ShapeError(f"{name} has shape {shape}; expected (N, channels) or (N, *positions, channels)")
    return rows


def precision_of(precision: str | None, data: Data) -> np.dtype:
    """What is asked for, else float32 where all inputs are, else float64."""
    if precision is None:
        return working_dtype(*data.values())
    if precision not in ("float32", "float64"):
        raise InvalidArgumentError("precision", precision, "'float32' or 'float64'")
    return np.dtype(precision)


def problem(net: KernelFunction, data: Data, tile: int | None, dtype: np.dtype) -> Record:
    """The record of a new store for the kernels of `data`; ShapeError and InvalidTypeError for what has none.

    `tile` None: a side that suits the network and the numbers of inputs.
    """
    x1, x2 = data["x1"], data.get("x2")
    shape = tuple(x1.shape[1:])
    if x2 is not None and tuple(x2.shape[1:]) != shape:
        raise ShapeError(f"x2 has inputs of shape {tuple(x2.shape[1:])}; expected those of x1, {shape}")
    inputs = {name: Inputs(shape, x.shape[0], row_digest(name, x, dtype)) for name, x in data.items()}
    return Record(
        network=repr(net),
        network_hash=network_hash(net, shape),
        x1=inputs["x1"],
        x2=inputs.get("x2"),
        engine=engine_of(net, shape, dtype),
        precision=dtype.name,
        tile=tile or side_of_tile(net, shape, dtype, x1.shape[0], None if x2 is None else x2.shape[0]),
    )


def open_store(path: Path, wanted: Record, data: Data) -> None:
    """Make the store with the record `wanted`, or complete one that was made in part; StoreError for another one's."""
    stored = read_record(path)
    fresh = stored is None
    stored = stored or _make(path, wanted)
    if different := stored.differences(wanted):
        raise StoreError(
            f"path is {str(path)!r}, whose store holds another kernel matrix, which differs in {different}; nothing is "
            "mixed: give another path, or what the store was made with"
        )
    try:
        restore_inputs(path, stored, data)
        write_metadata(path, stored)
    except OSError:
        if fresh and not any((path / name / "c").exists() for name in FIELDS):  # a full disk is not left fuller
            shutil.rmtree(path, ignore_errors=True)
        raise


def restore_inputs(path: Path, record: Record, data: Data, thorough: bool = False, repair: bool = True) -> list[Path]:
    """Write inputs again that are missing, or, if `thorough`, are not those of `data`; returns the files.

    With `repair` False nothing is written.
    """
    differing = []
    for name, about in record.inputs.items():
        chunks = record.arrays(path)[name]
        if repair:
            chunks.folder.mkdir(parents=True, exist_ok=True)
        indices = [(i, *(0,) * len(about.shape)) for i in range(-(-about.rows // record.tile))]
        for index in indices:
            if not thorough and chunks.is_there(index):
                continue
            start = index[0] * record.tile
            rows = rows_of(name, data[name], slice(start, start + record.tile), chunks.dtype)
            if thorough and _holds(chunks, index, rows):
                continue
            if repair:
                chunks.write(index, rows)
            differing.append(chunks.path(index))
    return differing


def _make(path: Path, record: Record) -> Record:
    """Put the record of a new store in place, once; whoever comes second takes the one there is.

    `open_store` adds what lacks, whoever made the store.
    """
    text = metadata(path, record)[path]
    try:
        with whole_file(path / NAME, once=True) as partial:
            partial.write_bytes(text)
        return record
    except FileExistsError:
        stored = read_record(path)
    if stored is None:
        raise StoreError(f"the store in {path} was removed while it was made; try again")
    return stored


def _holds(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> bool:
    try:
        return np.array_equal(chunks.read(index)[: len(values)], values)
    except (ValueError, FileNotFoundError):
        return False
