"""Predictions whose parts are complete as one .npy, .npz or Zarr, which appears whole.

.npy    the mean, or of a classifier the label; standard deviations and probabilities in files beside, NAME-std.npy
.npz    arrays mean, std, label, probability, as far as they were asked for; uncompressed
.zarr   a group with the same arrays
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from equitangents.checksums import append_checksum, checked
from equitangents.ensembles.streaming.parts import RECORD, Parts, attributes, read_record
from equitangents.errors import InvalidArgumentError
from equitangents.files import put_in_place
from equitangents.tiles.chunks import Chunks, check_library
from equitangents.tiles.place import PARTIAL, ObjectPath, Place, content, remove_all, write_whole
from equitangents.tiles.store import DamagedTileError

SUFFIXES = (".npy", ".npz", ".zarr")
_MOVING = ".moving"  # the object below a Zarr group that says which parts are being copied there
_ATTRIBUTE = "equitangents"  # of an object: the checksum of the record of the parts that it was made of
_ATTEMPTS, _PAUSE = 20, 0.1  # at removing parts, and seconds between them


def check_suffix(path: Place) -> None:
    """Raise InvalidArgumentError unless the name says a format that is written; MissingLibraryError for .zarr alone."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgumentError("path", str(path), "a name that ends in .npy, .npz or .zarr")
    if path.suffix == ".zarr":
        check_library()


def files_of(path: Place, arrays: Collection[str]) -> dict[str, Place]:
    """The files that will be written, by array; of .npz and .zarr one for all of them."""
    if path.suffix != ".npy":
        return {"": path}
    main = "label" if "label" in arrays else "mean"
    beside = {name: path.with_name(f"{path.stem}-{name}.npy") for name in arrays if name not in ("mean", "label")}
    return beside | {main: path}  # the main one last: when it is there, all are


def labelled(arrays: dict[str, tuple[int, ...]], labels: bool) -> dict[str, tuple[int, ...]]:
    """The arrays, and with `labels` before them the classes with the largest mean."""
    return {"label": arrays["mean"][:-1], **arrays} if labels else arrays


def assemble(path: Place, parts: Parts, labels: np.ndarray | None) -> None:
    """Put complete parts together at `path`, with the labels of classes if there are any, and remove them."""
    arrays = labelled(parts.arrays, labels is not None)
    if path.suffix == ".zarr":
        _finish_zarr(path, parts, labels)
        return
    for name, file in files_of(path, arrays).items():
        with _appearing(file, parts, name) as opened:
            if path.suffix == ".npy":
                _write_npy(opened, name, parts, arrays, labels)
            else:
                with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                    for each in arrays:
                        with archive.open(f"{each}.npy", "w", force_zip64=True) as entry:
                            _write_npy(entry, each, parts, arrays, labels)
    remove(parts.folder)


@contextmanager
def _appearing(file: Place, parts: Parts, name: str) -> Iterator[Any]:
    """A file to write to, which is `file` in the end, and known as what these parts have become."""
    if isinstance(file, ObjectPath):
        with file.writer({_ATTRIBUTE: parts.checksum}) as opened:
            yield opened
        return
    partial = Path(str(parts.group)) / f"output{file.suffix}"
    with partial.open("wb") as opened:
        yield opened
    append_checksum(partial, _about(parts, name))
    with partial.open("rb+") as opened:
        os.fsync(opened.fileno())
    os.replace(partial, file)


def remove(folder: Place) -> None:
    """Remove parts, into which another process may still be writing.

    What says that they are ours, the record, goes last: a process that is killed leaves what the next one removes.
    """
    if isinstance(folder, ObjectPath):
        folder.remove_all()
        return
    left = _ATTEMPTS
    while folder.exists():
        try:
            for item in folder.iterdir():
                if item.is_dir():
                    shutil.rmtree(item)
                elif item.name != RECORD:
                    item.unlink(missing_ok=True)
            shutil.rmtree(folder)
        except OSError as error:
            left -= 1
            if not left or error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
            time.sleep(_PAUSE)


def remove_own(parts: Parts) -> None:
    """Remove the chunks of these predictions, and the folder if it is empty: others may be under way there."""
    remove_all(parts.group)
    if isinstance(parts.folder, Path):
        with suppress(OSError):
            parts.folder.rmdir()


def is_whole(file: Place, parts: Parts, name: str) -> bool:
    """Whether a file is what `assemble` makes of these parts for the array `name`, to the last byte.

    An object is known by what was put there with it.
    """
    if isinstance(file, ObjectPath):
        if file.suffix == ".zarr":
            return read_record(file) == parts.record
        return bool(file.attributes().get(_ATTRIBUTE) == parts.checksum)
    try:
        if file.suffix == ".zarr":
            return read_record(file) == parts.record and _is_whole_zarr(file, parts)
        with file.open("rb") as opened:
            return checked(opened) == _about(parts, name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # of damaged ones
        return False


def is_under_way(file: Place, parts: Parts) -> bool:
    """Whether these parts were being copied to a name in an object store when their process died."""
    return isinstance(file, ObjectPath) and _read(file / _MOVING) == parts.checksum.encode()


def _is_whole_zarr(home: Place, parts: Parts) -> bool:
    """Whether every file of a Zarr group is as it was written; DamagedTileError where a chunk is not."""
    arrays = labelled(parts.arrays, (home / "label").exists())
    for name in arrays:
        for chunk in parts.chunks:
            _chunks(home, parts, arrays, name).read(_index(chunk, arrays[name]))
    return all(content(file) == text for file, text in _texts(home, parts, arrays, attributes(home)))


def _texts(
    home: Place, parts: Parts, arrays: dict[str, tuple[int, ...]], more: dict[str, Any]
) -> list[tuple[Place, bytes]]:
    """What every `zarr.json` holds; that of the group comes last."""
    found = []
    for name, shape in arrays.items():
        about = _chunks(home, parts, arrays, name).metadata((parts.count, *shape), {})
        found.append((home / name / RECORD, json.dumps(about, indent=1).encode()))
    return [*found, (home / RECORD, parts.described(more))]


def _chunks(home: Place, parts: Parts, arrays: dict[str, tuple[int, ...]], name: str) -> Chunks:
    dtype = np.dtype(np.int64 if name == "label" else np.float64)
    return Chunks(home / name, (parts.rows, *arrays[name]), dtype)


def _index(chunk: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (chunk, *(0 for _ in shape))


def _about(parts: Parts, name: str) -> dict[str, Any]:
    """What a file says that it holds; how many rows were predicted at once is of no matter there."""
    return {"record": {key: value for key, value in parts.record.items() if key != "rows"}, "array": name}


def _write_npy(
    file: IO[bytes], name: str, parts: Parts, arrays: dict[str, tuple[int, ...]], labels: np.ndarray | None
) -> None:
    dtype = labels.dtype if labels is not None and name == "label" else np.dtype(np.float64)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
    np.lib.format.write_array_header_2_0(file, {**header, "shape": (parts.count, *arrays[name])})
    for values in _blocks(parts):
        block = labels[np.argmax(values["mean"], axis=-1)] if labels is not None and name == "label" else values[name]
        file.write(np.ascontiguousarray(block, dtype).tobytes())


def _finish_zarr(path: Place, parts: Parts, labels: np.ndarray | None) -> None:
    """Write a Zarr group, which takes the place of `path`; in an object store what was there is gone for this while."""
    if isinstance(path, ObjectPath):
        path.remove_all()
        (path / _MOVING).write_bytes(parts.checksum.encode())
        _write_zarr(path, parts, labels)
        (path / _MOVING).unlink()
    else:
        home = Path(str(parts.group)) / path.name
        remove_all(home)
        home.mkdir()
        _write_zarr(home, parts, labels)
        remove_all(home / PARTIAL)
        put_in_place(home, path)  # what was there is among the parts now, and goes with them
    remove(parts.folder)


def _write_zarr(home: Place, parts: Parts, labels: np.ndarray | None) -> None:
    arrays, numbers = labelled(parts.arrays, labels is not None), False
    more: dict[str, Any] = {}
    if labels is not None:
        numbers = bool(labels.dtype.kind in "iu" and labels.max() <= np.iinfo(np.int64).max)
        more = {} if numbers else {"classes": labels.tolist()}
    if isinstance(home, Path):
        for name in arrays:
            (home / name).mkdir()
    for chunk, values in enumerate(_blocks(parts)):
        if labels is not None:
            index = np.argmax(values["mean"], axis=-1)
            values = {"label": labels[index] if numbers else index, **values}
        for name, shape in arrays.items():
            _chunks(home, parts, arrays, name).write(_index(chunk, shape), values[name])
    for file, text in _texts(home, parts, arrays, more):
        write_whole(file, text, home / PARTIAL)


def _read(file: Place) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _blocks(parts: Parts) -> Iterator[dict[str, np.ndarray]]:
    for chunk in parts.chunks:
        try:
            values = parts.read(chunk)
        except (DamagedTileError, FileNotFoundError):  # they were whole when they were checked
            raise FileNotFoundError(errno.ENOENT, "what was predicted is gone", str(parts.folder)) from None
        yield values
