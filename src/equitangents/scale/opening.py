"""Opening a store: made where there is none, refused where it is another problem's, extended where rows were added."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.errors import StoreError
from equitangents.files import real
from equitangents.scale.chunks import Chunks
from equitangents.scale.identity import row_digests, rows_of
from equitangents.scale.lease import alone
from equitangents.scale.metadata import (
    FIELDS,
    NAME,
    arrays,
    inputs,
    read_record,
    root_metadata,
    write_metadata,
)
from equitangents.scale.place import ObjectPath, Place
from equitangents.scale.record import Inputs, Record, differences
from equitangents.scale.whole import sweep, temporary_name

Data = dict[str, Any]  # the inputs x1 and perhaps x2 by name


def open_store(path: Place, wanted: Record, data: Data) -> Record:
    """The record of the store in `path`, which holds the kernels of `data` afterwards, those computed or none.

    `wanted` is the record of a new store. StoreError where the store there is another one's.
    """
    stored = read_record(path)
    if stored is None:
        stored = _make(path, wanted, data)
    record = _joined(path, stored, wanted, data)
    if record == stored:
        restore_inputs(path, record, data)
        write_metadata(path, record)
        return record
    with alone(path / FIELDS[0] / ".growing", f"rows are added to the store in {path} by another process; try again"):
        stored = read_record(path) or stored
        record = _joined(path, stored, wanted, data)
        _extend_inputs(path, stored, record, data)
        write_metadata(path, record)
    return record


def restore_inputs(path: Place, record: Record, data: Data, thorough: bool = False, repair: bool = True) -> list[Place]:
    """Write inputs again that are missing, or, if `thorough`, are not those of `data`; returns the files.

    With `repair` False nothing is written.
    """
    differing = []
    for name, about in inputs(record).items():
        chunks = arrays(path, record)[name]
        if repair:
            chunks.folder.mkdir(parents=True, exist_ok=True)
        count = about.rows[-1]
        listed = None if thorough else chunks.there((-(-count // chunks.shape[0]), *(1 for _ in about.shape)))
        for index in _indices(count, chunks):
            if thorough:
                right = _holds(chunks, index, _rows(name, data[name], count, chunks, index))
            else:
                right = chunks.is_there(index) if listed is None else bool(listed[index])
            if not right:
                if repair:
                    chunks.write(index, _rows(name, data[name], count, chunks, index))
                differing.append(chunks.path(index))
    return differing


def _extend_inputs(path: Place, stored: Record, record: Record, data: Data) -> None:
    """Write the rows that `record` has beyond `stored`."""
    for name, about in inputs(record).items():
        chunks = arrays(path, record)[name]
        first = inputs(stored)[name].rows[-1]
        if about.rows[-1] > first:
            for index in _indices(about.rows[-1], chunks, first):
                chunks.write(index, _rows(name, data[name], about.rows[-1], chunks, index))


def _make(path: Place, record: Record, data: Data) -> Record:
    """Make the store beside its place, and move it there whole; whoever comes second takes what is there.

    In an object store nothing is moved: its own `zarr.json` is put first, once, and whoever opens it adds what lacks.
    """
    if isinstance(path, ObjectPath):
        if (path / NAME).put_if(root_metadata(path, record), None) is not None:
            return record
        stored = read_record(path)
        if stored is None:
            raise StoreError(f"the store in {path} was removed while it was made; try again")
        return stored
    path = real(path)  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    partial = path.parent / temporary_name()
    try:
        for name in FIELDS:
            (partial / name).mkdir(parents=True)
        restore_inputs(partial, record, data)
        write_metadata(partial, record)
    except BaseException:  # a full disk is not left fuller
        shutil.rmtree(partial, ignore_errors=True)
        raise
    try:
        os.rename(partial, path)
    except OSError:
        stored = read_record(path)
        if stored is None:
            raise
        shutil.rmtree(partial)
        return stored
    return record


def _joined(path: Place, stored: Record, wanted: Record, data: Data) -> Record:
    """The stored record with the rows that `data` adds to it; StoreError where it is another problem's."""
    told = differences(stored, wanted)
    if not told:
        asked, dtype = inputs(wanted), np.dtype(stored.precision)
        grown = {
            name: _grown(name, about, asked[name], data[name], dtype, told) for name, about in inputs(stored).items()
        }
        if not told:
            return replace(stored, x1=grown["x1"], x2=grown.get("x2"))
    raise StoreError(
        f"path is {str(path)!r}, whose store holds another kernel matrix, and nothing is mixed. It differs in "
        f"{'; '.join(told)}. Give another path, or what the store was made with"
    )


def _grown(name: str, stored: Inputs, asked: Inputs, x: Any, dtype: np.dtype, told: list[str]) -> Inputs:
    """`stored` with the rows of x that it does not have; where it is not how x begins, `told` says so."""
    known, count = stored.rows[-1], asked.rows[-1]
    if count < known:
        told.append(f"the data {name}: {known} rows there, {count} here")
        return stored
    first = asked.digests[0] if count == known else row_digests(name, x, dtype, (known,))[0]
    if first != stored.digests[-1]:
        told.append(f"the data {name}: other values in the first {known} rows")
        return stored
    if count == known:
        return stored
    return Inputs(stored.shape, (*stored.rows, count), (*stored.digests, asked.digests[0]))


def _indices(count: int, chunks: Chunks, first: int = 0) -> Iterator[tuple[int, ...]]:
    """The chunks of an array of inputs that hold rows from `first` on."""
    tile = chunks.shape[0]
    for index in range(first // tile, -(-count // tile)):
        yield (index, *(0,) * (len(chunks.shape) - 1))


def _rows(name: str, x: Any, count: int, chunks: Chunks, index: tuple[int, ...]) -> np.ndarray:
    """What one of them holds."""
    tile = chunks.shape[0]
    return rows_of(name, x, slice(index[0] * tile, min((index[0] + 1) * tile, count)), chunks.dtype)


def _holds(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> bool:
    try:
        return np.array_equal(chunks.read(index)[: len(values)], values)
    except (ValueError, FileNotFoundError):
        return False
