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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.ensembles.streaming.parts import Parts, read_record
from equitangents.errors import InvalidArgumentError
from equitangents.scale.chunks import Chunks
from equitangents.scale.place import ObjectPath, Place

SUFFIXES = (".npy", ".npz", ".zarr")
_MOVING = ".moving"  # the object below a Zarr group that says which parts are being copied there
_MADE = "made.json"  # which files the parts have become
_ATTRIBUTE = "equitangents"  # of an object: the checksum of the record of the parts that it was made of
_ATTEMPTS, _PAUSE = 20, 0.1  # at removing parts, and seconds between them


def check_suffix(path: Place) -> None:
    """Raise InvalidArgumentError unless the name says a format that is written."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgumentError(f"path is {str(path)!r}; expected a name that ends in .npy, .npz or .zarr")


def files_of(path: Place, arrays: Any) -> dict[str, Place]:
    """The files that will be written, by array; of .npz and .zarr one for all of them."""
    if path.suffix != ".npy":
        return {"": path}
    main = "label" if "label" in arrays else "mean"
    beside = {name: path.with_name(f"{path.stem}-{name}.npy") for name in arrays if name not in ("mean", "label")}
    return beside | {main: path}  # the main one last: when it is there, all are


def labelled(arrays: dict[str, tuple[int, ...]], labels: bool) -> dict[str, tuple[int, ...]]:
    """The arrays, and with `labels` before them the classes with the largest mean."""
    return {"label": arrays["mean"][:-1], **arrays} if labels else arrays


def assemble(path: Place, parts: Parts, classes: list[Any] | None) -> None:
    """Put complete parts together at `path`, and remove them."""
    labels = None if classes is None else np.array(classes)
    arrays = labelled(parts.arrays, labels is not None)
    if path.suffix == ".zarr":
        _finish_zarr(path, parts, labels)
        return
    made: list[list[int]] = []
    for name, file in files_of(path, arrays).items():
        with _appearing(file, parts, made) as opened:
            if path.suffix == ".npy":
                _write_npy(opened, name, parts, arrays, labels)
            else:
                with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                    for each in arrays:
                        with archive.open(f"{each}.npy", "w", force_zip64=True) as entry:
                            _write_npy(entry, each, parts, arrays, labels)
    remove(parts.folder)


@contextmanager
def _appearing(file: Place, parts: Parts, made: list[list[int]]) -> Iterator[Any]:
    """A file to write to, which is `file` in the end, and known as what these parts have become."""
    if isinstance(file, ObjectPath):
        with file.writer({_ATTRIBUTE: parts.checksum}) as opened:
            yield opened
        return
    partial = Path(str(parts.folder)) / f"output{file.suffix}"
    with partial.open("wb") as opened:
        yield opened
        opened.flush()
        os.fsync(opened.fileno())
    made.append(_identity(partial))
    partial.with_name(_MADE).write_text(json.dumps(made))
    os.replace(partial, file)


def remove(folder: Place) -> None:
    """Remove parts, into which another process with the same command may still be writing."""
    if isinstance(folder, ObjectPath):
        folder.remove_all()
        return
    left = _ATTEMPTS
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            left -= 1
            if not left or error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
            time.sleep(_PAUSE)


def is_made(file: Place, parts: Parts) -> bool:
    """Whether a file is what `assemble` made of the parts, and died before it removed them; an object for ever."""
    if isinstance(file, ObjectPath):
        if file.suffix == ".zarr":  # under way, or whole
            return _read(file / _MOVING) == parts.checksum.encode() or read_record(file) == parts.record
        return bool(file.attributes().get(_ATTRIBUTE) == parts.checksum)
    try:
        return _identity(file) in json.loads((parts.folder / _MADE).read_bytes())
    except (OSError, ValueError):
        return False


def _identity(file: Path) -> list[int]:
    about = file.stat()
    return [about.st_ino, about.st_size, about.st_mtime_ns]


def _write_npy(file: Any, name: str, parts: Parts, arrays: dict[str, tuple[int, ...]], labels: Any) -> None:
    dtype = labels.dtype if name == "label" else np.dtype(np.float64)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
    np.lib.format.write_array_header_2_0(file, {**header, "shape": (parts.count, *arrays[name])})
    for values in _blocks(parts):
        block = labels[np.argmax(values["mean"], axis=-1)] if name == "label" else values[name]
        file.write(np.ascontiguousarray(block, dtype).tobytes())


def _finish_zarr(path: Place, parts: Parts, labels: np.ndarray | None) -> None:
    """The folder of the parts, with labels and without what nobody else needs, takes the place of `path`."""
    if labels is not None:
        numbers = labels.dtype.kind in "iu"
        grid = parts.arrays["mean"][:-1]
        chunks = Chunks(parts.folder / "label", (parts.rows, *grid), np.dtype(np.int64))
        chunks.folder.mkdir(exist_ok=True)
        for k, values in enumerate(_blocks(parts)):
            index = np.argmax(values["mean"], axis=-1)
            block = np.zeros((parts.rows, *grid), np.int64)
            block[: len(index)] = labels[index] if numbers else index
            chunks.write((k, *(0 for _ in grid)), block)
        parts.write_array_metadata("label", chunks)
        parts.write_metadata({} if numbers else {"classes": labels.tolist()})
    if isinstance(path, ObjectPath):
        _move_objects(parts, path)
        return
    assert isinstance(parts.folder, Path), "the parts lie beside the file"
    for leftover in parts.folder.glob("**/.partial"):
        shutil.rmtree(leftover)
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    parts.folder.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _move_objects(parts: Parts, path: ObjectPath) -> None:
    """Copy within the store; what is there already, and is replaced, is gone for this while."""
    source = path.with_name(parts.folder.name)
    path.remove_all()
    (path / _MOVING).write_bytes(parts.checksum.encode())
    source.copy_to(path)
    (path / _MOVING).unlink()
    source.remove_all()


def _read(file: Place) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _blocks(parts: Parts) -> Iterator[dict[str, np.ndarray]]:
    for chunk in parts.chunks:
        values = parts.read(chunk)
        assert values is not None, "parts are checked before they are put together"
        yield values
