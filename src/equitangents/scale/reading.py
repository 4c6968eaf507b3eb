"""Inputs and targets in files: memory maps of .npy and of uncompressed .npz, Zarr, that of object stores included."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._types import FileName
from equitangents.array_files import read_arrays
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import memory_size
from equitangents.memory import process_memory
from equitangents.scale.place import ObjectPath, Place, place, zarr_node

_BLOCK = 2**24  # bytes whose checksum is computed at once
_LOCAL = 30  # bytes of the header before a member of a zip file, without its two names


def read_inputs(name: str, file: FileName, key: str = "x") -> Any:
    """The array in an .npy file, array `key` of an .npz file, or a Zarr array (or `key` of a group).

    .npy files and uncompressed .npz files stay on disk; of an object store Zarr alone is read. Raises
    InvalidArgumentError, which names `name`, for others.
    """
    path = place(name, file)
    if isinstance(path, ObjectPath):
        if path.suffix in (".npy", ".npz"):
            raise InvalidArgumentError(
                f"{name} is {str(path)!r}; of an object store Zarr is read: copy the file here, or write it as Zarr"
            )
        return _zarr(name, path, key)
    if path.is_dir():
        return _zarr(name, path, key)
    if path.suffix == ".npy":
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            pass  # what is wrong with it is said below
    if path.suffix == ".npz":
        mapped = _mapped(path, key)
        if mapped is not None:
            return mapped
    arrays = read_arrays(name, path)
    if isinstance(arrays, np.ndarray):
        return arrays
    if key not in arrays:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise InvalidArgumentError(f"{name} is {str(path)!r}, which holds {held}; expected an array {key}")
    return arrays[key]


def read_pair(file: FileName) -> tuple[Any, Any]:
    """Arrays x and y of an .npz file or a Zarr group; InvalidArgumentError where y is not there."""
    path = place("data", file)
    if path.suffix == ".npy":
        raise InvalidArgumentError(
            f"data is {str(path)!r}, which holds inputs alone; give targets as well (--targets), or an .npz file or "
            "Zarr group with x and y"
        )
    return read_inputs("data", file, "x"), read_inputs("data", file, "y")


def _mapped(path: Path, key: str) -> Any:
    """A memory map of an uncompressed array of an .npz file, whose checksum is right; else None."""
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(f"{key}.npy")
            if entry.compress_type != zipfile.ZIP_STORED:
                return None
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}")
                shape, fortran, dtype = read(file)
                if dtype.hasobject:
                    return None
                header = file.tell()
                while file.read(_BLOCK):  # raises at the end where the checksum is another one
                    pass
        with path.open("rb") as whole:
            whole.seek(entry.header_offset)
            local = whole.read(_LOCAL)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        offset = entry.header_offset + _LOCAL + names + header
        if 0 in shape:
            return None
        return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error):
        return None  # what is wrong with it is said elsewhere


def _zarr(name: str, path: Place, key: str) -> Any:
    import zarr

    try:
        node: Any = zarr.open(**zarr_node(path), mode="r")
        array, at = (node[key], path / key) if isinstance(node, zarr.Group) else (node, path)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidArgumentError(
            f"{name} is {str(path)!r}, a folder that is neither a Zarr array nor a group with an array {key}: {error}"
        ) from None
    _check_claim(name, at, array)
    return array


def _check_claim(name: str, path: Place, array: Any) -> None:
    """Raise where an array says that it is larger than memory and what it lacks is, too.

    Chunks that are not there read as one value, so that a few bytes could claim any number of rows. So could one chunk.
    """
    memory, claimed = process_memory(), array.size * array.dtype.itemsize
    if claimed <= memory:
        return
    chunk = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    there = 0 if chunk > memory else chunk * _files(path)
    if claimed - there > memory:
        raise InvalidArgumentError(
            f"{name} is {str(path)!r}, which claims an array of shape {tuple(array.shape)}, {memory_size(claimed)}, in "
            f"chunks of {memory_size(chunk)}, and holds {memory_size(there)} of it; expected an array that is there"
        )


def _files(path: Place) -> int:
    """How many chunks of an array there are: its files, but for those that describe it."""
    if isinstance(path, ObjectPath):
        names = (name.rpartition("/")[2] for name, _ in path.sizes())
    else:
        names = (name for _, _, files in os.walk(path) for name in files)
    return sum(name not in ("zarr.json", ".zarray", ".zattrs") for name in names)
