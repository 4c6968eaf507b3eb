"""Create, validate or extend a Gram store."""

from __future__ import annotations

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
from equitangents.scale.cost import side_of_tile
from equitangents.scale.identity import action_hash, engine_of, network_hash, rows_digest, rows_of
from equitangents.scale.record import FIELDS, NAME, Inputs, Record, differences, metadata, read_record, write_metadata
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


def problem(net: KernelFunction, data: Data, action: Action | None, tile: int | None, dtype: np.dtype) -> Record:
    """The record of a new store for the kernels of `data`; ShapeError and InvalidTypeError for what has none.

    `tile` None: a side that suits the network and the numbers of inputs.
    """
    x1, x2 = data["x1"], data.get("x2")
    shape = tuple(x1.shape[1:])
    if x2 is not None and tuple(x2.shape[1:]) != shape:
        raise ShapeError("x2", tuple(x2.shape), ("N", *shape), "give inputs of the shape of x1")
    inverses = None if action is None else _elements(net, x1, x2, action, dtype)
    inputs = {
        name: Inputs(shape, (x.shape[0],), (rows_digest(name, x, dtype, x.shape[0]),)) for name, x in data.items()
    }
    return Record(
        network=repr(net),
        network_hash=network_hash(net, shape),
        action=None if action is None else action.name,
        action_hash=None if action is None else action_hash(action, shape),
        x1=inputs["x1"],
        x2=inputs.get("x2"),
        engine=engine_of(net, shape, dtype),
        precision=dtype.name,
        tile=tile or side_of_tile(net, shape, dtype, x1.shape[0], None if x2 is None else x2.shape[0]),
        inverses=inverses,
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
            write_inputs(path, record, data)
            write_metadata(path, record)
        except OSError:
            if fresh and not any((path / name / "c").exists() for name in FIELDS):  # a full disk is not left fuller
                remove_all(path)
            raise
        return record
    with alone(path / FIELDS[0] / ".growing", f"rows are added to the store in {path} by another process; try again"):
        stored = read_record(path) or stored
        record = _joined(path, stored, wanted, data)
        write_inputs(path, record, data, known={name: x.rows[-1] for name, x in stored.inputs.items()})
        write_metadata(path, record)
    return record


def write_inputs(
    path: Place,
    record: Record,
    data: Data,
    *,
    known: dict[str, int] | None = None,
    thorough: bool = False,
    repair: bool = True,
) -> list[Place]:
    """Write inputs that are missing, those beyond `known` rows, or, if `thorough`, all that are not those of `data`.

    Returns the files. With `repair` False nothing is written.
    """
    differing: list[Place] = []
    for name, about in record.inputs.items():
        chunks, tile, count = record.arrays(path)[name], record.tile, about.rows[-1]
        if repair:
            chunks.folder.mkdir(parents=True, exist_ok=True)
        indices = [(index, *(0,) * len(about.shape)) for index in range(-(-count // tile))]
        lacking = set(chunks.missing(indices))
        for index in indices:
            rows = slice(index[0] * tile, min((index[0] + 1) * tile, count))
            wrong = index in lacking or rows.stop > (known or {}).get(name, count)
            if not (wrong or thorough):
                continue
            values = rows_of(name, data[name], rows, chunks.dtype)
            if not wrong and _holds(chunks, index, values):
                continue
            if repair:
                chunks.write(index, values)
            differing.append(chunks.path(index))
    return differing


def _holds(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> bool:
    try:
        return np.array_equal(chunks.read(index)[: len(values)], values)
    except (ValueError, FileNotFoundError):
        return False


def _make(path: Place, record: Record) -> Record:
    """Put the record of a new store in place, once; whoever comes second takes the one there is.

    `open_store` adds what lacks, whoever made the store.
    """
    text = metadata(path, record)[path]
    made = True
    if isinstance(path, ObjectPath):
        made = (path / NAME).put_if(text, None) is not None
    else:
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
    differ, grown = differences(stored, wanted), dict[str, Inputs]()
    for name, there in stored.inputs.items() if not differ else ():
        here, known = wanted.inputs[name], there.rows[-1]
        count, dtype = here.rows[-1], np.dtype(stored.precision)
        if count < known:
            differ.append(f"the data {name}: {known} rows there, {count} here")
        elif there.digests[-1] != (here.digests[0] if count == known else rows_digest(name, data[name], dtype, known)):
            differ.append(f"the data {name}: other values in the first {known} rows")
        elif count > known:
            grown[name] = Inputs(there.shape, (*there.rows, count), (*there.digests, here.digests[0]))
    if differ:
        expected = f"a store of the same kernel matrix; it differs in {'; '.join(differ)}"
        raise StoreError("path", str(path), expected, "give another path")
    return replace(stored, **grown)  # type: ignore[arg-type]


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
