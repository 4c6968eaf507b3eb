"""Opening a store: the record that a new one would have; made where there is none, refused where it is another
problem's, extended where rows were added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from equitangents._types import Numbers
from equitangents.actions import Action
from equitangents.actions.compact import check_finite_group
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError, StoreError
from equitangents.file_limits import Rows
from equitangents.files import whole_file
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import is_invariant
from equitangents.precision import working_dtype
from equitangents.scale.cost import side_of_part, side_of_tile
from equitangents.scale.identity import action_hash, engine_of, network_hash, row_digests, rows_of
from equitangents.scale.record import (
    FIELDS,
    NAME,
    Inputs,
    Record,
    differences,
    read_record,
    root_metadata,
    write_metadata,
)
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.place import ObjectPath, Place, alone, remove_all
from equitangents.validation import check_unmasked

Data = dict[str, Rows]  # the inputs x1 and perhaps x2 by name


def opened(name: str, x: Numbers | Rows) -> Rows:
    """An array whose rows can be read: NumPy's, a memory map, Zarr's; of others a NumPy array."""
    check_unmasked(name, x)
    rows = x if isinstance(x, Rows) else np.asarray(x)
    shape = tuple(rows.shape)
    if len(shape) > 1 and shape[0] == 0:
        raise ShapeError(name, shape, "at least one input")
    if len(shape) < 2 or 0 in shape:
        raise ShapeError(name, shape, "(N, channels) or (N, *positions, channels)")
    return rows


def precision_of(precision: str | None, data: Data) -> np.dtype:
    """What is asked for, else float32 where all inputs are, else float64."""
    if precision is None:
        return working_dtype(*data.values())
    if precision not in ("float32", "float64"):
        raise InvalidArgumentError("precision", precision, "'float32' or 'float64'")
    return np.dtype(precision)


def problem(
    net: KernelFunction, data: Data, action: Action | None, tile: int | None, dtype: np.dtype, *, shards: bool = False
) -> Record:
    """The record of a new store for the kernels of `data`; ShapeError and InvalidTypeError for what has none.

    `tile` None: a side that suits the network and the numbers of inputs. `shards`: large tiles are shards.
    """
    x1, x2 = data["x1"], data.get("x2")
    shape = tuple(x1.shape[1:])
    if x2 is not None and tuple(x2.shape[1:]) != shape:
        raise ShapeError("x2", tuple(x2.shape), ("N", *shape), "give inputs of the shape of x1")
    inverses = None
    if action is not None:
        inverses = _elements(net, x1, x2, action, dtype)
    inputs = {
        name: Inputs(shape, (x.shape[0],), row_digests(name, x, dtype, (x.shape[0],))) for name, x in data.items()
    }
    side = tile or side_of_tile(net, shape, dtype, x1.shape[0], None if x2 is None else x2.shape[0], shard=shards)
    return Record(
        network=repr(net),
        network_hash=network_hash(net, shape),
        action=None if action is None else action.name,
        action_hash=None if action is None else action_hash(action, shape),
        x1=inputs["x1"],
        x2=inputs.get("x2"),
        engine=engine_of(net, shape, dtype),
        precision=dtype.name,
        tile=side,
        inverses=inverses,
        part=side_of_part(side) if shards else None,
    )


def open_store(path: Place, wanted: Record, data: Data) -> Record:
    """The record of the store in `path`, which holds the kernels of `data` afterwards, those computed or none.

    `wanted` is the record of a new store. StoreError where the store there is another one's.
    """
    stored = read_record(path)
    fresh = stored is None
    if stored is None:
        stored = _make(path, wanted)
    record = _joined(path, stored, wanted, data)
    if record == stored:
        try:
            restore_inputs(path, record, data)
            write_metadata(path, record)
        except OSError:
            if fresh and not any((path / name / "c").exists() for name in FIELDS):  # a full disk is not left fuller
                remove_all(path)
            raise
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
    for name, about in record.inputs.items():
        chunks = record.arrays(path)[name]
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
    for name, about in record.inputs.items():
        chunks = record.arrays(path)[name]
        first = stored.inputs[name].rows[-1]
        if about.rows[-1] > first:
            for index in _indices(about.rows[-1], chunks, first):
                chunks.write(index, _rows(name, data[name], about.rows[-1], chunks, index))


def _make(path: Place, record: Record) -> Record:
    """Put the record of a new store in place, once; whoever comes second takes the one there is.

    `open_store` adds what lacks, whoever made the store.
    """
    text = root_metadata(path, record)
    if isinstance(path, ObjectPath):
        made = (path / NAME).put_if(text, None) is not None
    else:
        made = True
        try:
            with whole_file(path / NAME, once=True) as partial:
                partial.write_bytes(text)
        except FileExistsError:
            made = False
    stored = record if made else read_record(path)
    if stored is None:
        raise StoreError("store", str(path), "to stay", "it was removed while it was made; try again")
    return stored


def _joined(path: Place, stored: Record, wanted: Record, data: Data) -> Record:
    """The stored record with the rows that `data` adds to it; StoreError where it is another problem's."""
    told = differences(stored, wanted)
    if not told:
        asked, dtype = wanted.inputs, np.dtype(stored.precision)
        grown = {
            name: _grown(name, about, asked[name], data[name], dtype, told) for name, about in stored.inputs.items()
        }
        if not told:
            return replace(stored, x1=grown["x1"], x2=grown.get("x2"))
    raise StoreError(
        "path", str(path), f"a store of the same kernel matrix; it differs in {'; '.join(told)}", "give another path"
    )


def _grown(name: str, stored: Inputs, asked: Inputs, x: Rows, dtype: np.dtype, told: list[str]) -> Inputs:
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


def _rows(name: str, x: Rows, count: int, chunks: Chunks, index: tuple[int, ...]) -> np.ndarray:
    """What one of them holds."""
    tile = chunks.shape[0]
    return rows_of(name, x, slice(index[0] * tile, min((index[0] + 1) * tile, count)), chunks.dtype)


def _holds(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> bool:
    try:
        return np.array_equal(chunks.read(index)[: len(values)], values)
    except (ValueError, FileNotFoundError):
        return False


def _elements(net: KernelFunction, x1: Rows, x2: Rows | None, action: Action, dtype: np.dtype) -> tuple[int, ...]:
    """The inverse of every element, after checking that the action is one that can be used."""
    if not isinstance(action, Action):
        raise InvalidTypeError("action", action, "an action of a finite group, of equitangents.actions")
    check_finite_group("action", action, "a kernel for each element")
    if x2 is None and not is_invariant(net, action, rows_of("x1", x1, slice(0, 256), dtype)):
        raise InvalidArgumentError(
            "action", action, "one under which the kernel is known to be invariant", "give x2=x1 for the whole matrix"
        )
    return tuple(int(g) for g in action.group.inverses)
