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
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.claims import read_json
from equitangents.ensembles.streaming.parts import Parts
from equitangents.errors import InvalidArgumentError
from equitangents.scale.chunks import Chunks

SUFFIXES = (".npy", ".npz", ".zarr")
_MADE = "made.json"  # which files the parts have become
_ATTEMPTS, _PAUSE = 20, 0.1  # at removing parts, and seconds between them


def check_suffix(path: Path) -> None:
    """Raise InvalidArgumentError unless the name says a format that is written."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgumentError(f"path is {str(path)!r}; expected a name that ends in .npy, .npz or .zarr")


def files_of(path: Path, arrays: Any) -> dict[str, Path]:
    """The files that will be written, by array; of .npz and .zarr one for all of them."""
    if path.suffix != ".npy":
        return {"": path}
    main = "label" if "label" in arrays else "mean"
    beside = {name: path.with_name(f"{path.stem}-{name}.npy") for name in arrays if name not in ("mean", "label")}
    return beside | {main: path}  # the main one last: when it is there, all are


def labelled(arrays: dict[str, tuple[int, ...]], labels: bool) -> dict[str, tuple[int, ...]]:
    """The arrays, and with `labels` before them the classes with the largest mean."""
    return {"label": arrays["mean"][:-1], **arrays} if labels else arrays


def assemble(path: Path, parts: Parts, classes: list[Any] | None) -> None:
    """Put complete parts together at `path`, and remove them."""
    labels = None if classes is None else np.array(classes)
    arrays = labelled(parts.arrays, labels is not None)
    if path.suffix == ".zarr":
        _finish_zarr(path, parts, labels)
        return
    made: list[list[int]] = []
    for name, file in files_of(path, arrays).items():
        partial = parts.folder / f"output{path.suffix}"
        with partial.open("wb") as opened:
            if path.suffix == ".npy":
                _write_npy(opened, name, parts, arrays, labels)
            else:
                with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                    for each in arrays:
                        with archive.open(f"{each}.npy", "w", force_zip64=True) as entry:
                            _write_npy(entry, each, parts, arrays, labels)
            opened.flush()
            os.fsync(opened.fileno())
        made.append(_identity(partial))
        (parts.folder / _MADE).write_text(json.dumps(made))
        os.replace(partial, file)
    _remove(parts.folder)


def _remove(folder: Path) -> None:
    """Remove parts, into which another process with the same command may still be writing."""
    left = _ATTEMPTS
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            left -= 1
            if not left or error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
            time.sleep(_PAUSE)


def is_made(file: Path, folder: Path) -> bool:
    """Whether a file is what `assemble` made of the parts in `folder`, and died before it removed them."""
    try:
        return _identity(file) in read_json((folder / _MADE).read_bytes())
    except (OSError, ValueError, TypeError):
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


def _finish_zarr(path: Path, parts: Parts, labels: np.ndarray | None) -> None:
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
    for leftover in parts.folder.glob("**/.partial"):
        shutil.rmtree(leftover)
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    parts.folder.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _blocks(parts: Parts) -> Iterator[dict[str, np.ndarray]]:
    for chunk in parts.chunks:
        values = parts.read(chunk)
        assert values is not None, "parts are checked before they are put together"
        yield values
