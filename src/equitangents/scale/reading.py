"""Inputs and targets from files: memory maps of .npy, arrays of .npz, Zarr (also in object stores)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from equitangents._types import FileName
from equitangents.errors import InvalidArgumentError, StoreError, require
from equitangents.foreign_files import UNREADABLE, read_arrays
from equitangents.scale.place import ObjectPath, Place, place, zarr_node

_METADATA = ("zarr.json", ".zarray", ".zgroup")


@runtime_checkable
class LazyArray(Protocol):
    """An array in memory or on disk (NumPy, memory map, Zarr), whose rows are read when they are needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""

    def __getitem__(self, key: Any, /) -> Any:
        """Some entries."""


def read_inputs(name: str, file: FileName, key: str = "x") -> LazyArray:
    """The array in an .npy file, array `key` of an .npz file, or a Zarr array (or `key` of a group).

    .npy files and Zarr stay on disk; in object stores only Zarr is supported. Raises InvalidArgumentError, which names
    `name`, for others.
    """
    path = place(name, file)
    if isinstance(path, ObjectPath) and path.name.endswith((".npy", ".npz")):
        raise InvalidArgumentError(
            name, str(path), remedy="of an object store Zarr is read: copy the file here, or write it as Zarr"
        )
    if isinstance(path, ObjectPath) or path.is_dir():
        return _zarr(name, path, key)
    if path.suffix == ".npy" and path.is_file():
        with suppress(*UNREADABLE):  # what is wrong with it `read_arrays` says
            return cast(LazyArray, np.load(path, mmap_mode="r", allow_pickle=False))
    arrays = read_arrays(name, path)
    if isinstance(arrays, np.ndarray):
        return arrays
    if key not in arrays:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise InvalidArgumentError(name, str(path), key, f"it holds {held}")
    return arrays[key]


def read_pair(file: FileName) -> tuple[LazyArray, LazyArray]:
    """Arrays x and y of an .npz file or a Zarr group; InvalidArgumentError if y is missing."""
    path = place("data", file)
    if path.name.endswith(".npy"):
        raise InvalidArgumentError(
            "data", str(path), "an .npz file or Zarr group with x and y", "or give targets as well (--targets)"
        )
    return read_inputs("data", file, "x"), read_inputs("data", file, "y")


def some_rows(name: str, x: LazyArray, rows: slice | np.ndarray) -> np.ndarray:
    """Some rows of an array in memory or on disk; raises StoreError with `name` if they cannot be read."""
    if isinstance(x, np.ndarray) and not isinstance(x, np.memmap):
        return np.asarray(x[rows])
    try:
        return np.asarray(x[rows])
    except UNREADABLE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise StoreError(f"{name} cannot be read: {reason}") from None


def _zarr(name: str, path: Place, key: str) -> LazyArray:
    zarr = require("zarr", "scale", name)
    try:
        node: Any = zarr.open(**zarr_node(path), mode="r")
        array: Any = node[key] if isinstance(node, zarr.Group) else node
    except (RecursionError, *UNREADABLE) as error:
        metadata = isinstance(path, ObjectPath) or any((path / file).exists() for file in _METADATA)
        raise InvalidArgumentError(
            name,
            str(path),
            "a Zarr array, or a group with the array",
            f"{key}; {error if metadata else 'it has no metadata of Zarr'}",
        ) from None
    if isinstance(array, zarr.Group):
        raise InvalidArgumentError(name, str(path), "an array", f"{key} is a group")
    return array
