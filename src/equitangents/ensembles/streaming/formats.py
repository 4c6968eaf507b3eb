"""Predictions whose parts are complete as one .npy, .npz or Zarr, which appears whole.

.npy    the mean, or of a classifier the label; standard deviations and probabilities in files beside, NAME-std.npy
.npz    arrays mean, std, label, probability, as far as they were asked for; uncompressed
.zarr   a group with the same arrays
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from equitangents.ensembles.streaming.parts import RECORD, Parts, read_record
from equitangents.errors import InvalidArgumentError
from equitangents.extras import check_installed
from equitangents.files import put_in_place
from equitangents.seals import seal, sealed
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.place import ObjectPath, Place, remove_all
from equitangents.tiles.store import DamagedTileError

SUFFIXES = (".npy", ".npz", ".zarr")
_MOVING = ".moving"  # the object below a Zarr group that says which parts are being copied there
_ATTRIBUTE = "equitangents"  # of an object: the checksum of the record of the parts that it was made of
_ATTEMPTS, _PAUSE = 20, 0.1  # at removing parts, and seconds between them


def check_suffix(path: Place) -> None:
    """Raise InvalidArgumentError for names of other formats, MissingLibraryError without the library of this one."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgumentError(f"path is {str(path)!r}; expected a name that ends in .npy, .npz or .zarr")
    if path.suffix == ".zarr":
        check_installed("google_crc32c", "scale", "a Zarr file")


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
    seal(partial, _about(parts, name))
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
            there = replace(parts, folder=file, finished=True)
            return read_record(file) == parts.record and there.is_whole() and _are_labelled(there)
        with file.open("rb") as opened:
            return sealed(opened) == _about(parts, name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # of damaged ones
        return False


def is_under_way(file: Place, parts: Parts) -> bool:
    """Whether these parts were being copied to a name in an object store when their process died."""
    return isinstance(file, ObjectPath) and _read(file / _MOVING) == parts.checksum.encode()


def _are_labelled(parts: Parts) -> bool:
    """Whether labels, if there are any, are as they were written."""
    chunks = _label_chunks(parts)
    if not chunks.folder.exists():
        return True
    for chunk in parts.chunks:
        chunks.read((chunk, *(0 for _ in chunks.shape[1:])))  # ValueError where it is damaged
    return parts.is_described("label", chunks)


def _label_chunks(parts: Parts) -> Chunks:
    grid = parts.arrays["mean"][:-1]
    return Chunks(parts.group / "label", (parts.rows, *grid), np.dtype(np.int64))


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
    """The folder of the parts, with labels and without what nobody else needs, takes the place of `path`."""
    about: dict[str, Any] = {}
    if labels is not None:
        numbers = labels.dtype.kind in "iu" and labels.max() <= np.iinfo(np.int64).max
        chunks, grid = _label_chunks(parts), parts.arrays["mean"][:-1]
        chunks.folder.mkdir(exist_ok=True)
        for k, values in enumerate(_blocks(parts)):
            index = np.argmax(values["mean"], axis=-1)
            block = np.zeros((parts.rows, *grid), np.int64)
            block[: len(index)] = labels[index] if numbers else index
            chunks.write((k, *(0 for _ in grid)), block)
        parts.write_array_metadata("label", chunks)
        about = {} if numbers else {"classes": labels.tolist()}
    parts.describe(about)
    if isinstance(path, ObjectPath):
        _move_objects(parts, path)
        return
    assert isinstance(parts.group, Path), "the parts lie beside the file"
    for leftover in parts.group.glob("**/.partial"):
        shutil.rmtree(leftover)
    put_in_place(parts.group, path)  # what was there is among the parts now, and goes with them
    if parts.group.is_file():
        parts.group.unlink()
    remove(parts.folder)


def _move_objects(parts: Parts, path: ObjectPath) -> None:
    """Copy within the store; what is there already, and is replaced, is gone for this while."""
    assert isinstance(parts.group, ObjectPath), "the parts lie beside the object"
    path.remove_all()
    (path / _MOVING).write_bytes(parts.checksum.encode())
    parts.group.copy_to(path)
    (path / _MOVING).unlink()
    remove(parts.folder)


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
