"""The Zarr arrays of a store, with damage reported as StoreError."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from zarr.storage import LocalStore, StorePath

from equitangents.errors import StoreError
from equitangents.scale.place import Place, zarr_node

_DAMAGE = ("checksum", "buffer", "size", "reshape")  # words of errors of codecs

if TYPE_CHECKING:
    _Array = zarr.Array[Any]
else:
    _Array = zarr.Array  # no generic class at run time before Zarr 3.1


def _checked(read: Callable[..., Any]) -> Callable[..., Any]:
    """A read method that raises StoreError for a damaged chunk."""

    @functools.wraps(read)
    def reading(array: zarr.Array[Any], /, *args: Any, **keywords: Any) -> Any:
        try:
            return read(array, *args, **keywords)
        except (ValueError, RuntimeError) as error:  # of the codecs: a checksum, a length
            if any(word in str(error) for word in _DAMAGE):
                raise StoreError(
                    "store", str(array.store_path), "undamaged tiles", f"compute(check=True) repairs it: {_line(error)}"
                ) from None
            raise

    return reading


class CheckedArray(_Array):
    """A read-only Zarr array that raises StoreError for damaged chunks and other read errors."""


for _name in ("basic", "orthogonal", "coordinate", "mask", "block"):
    setattr(CheckedArray, f"get_{_name}_selection", _checked(getattr(zarr.Array, f"get_{_name}_selection")))


def open_checked(path: Place) -> CheckedArray:
    """The array in a folder; StoreError if it, or its metadata, is damaged or gone."""
    try:
        node = zarr_node(path)
        store = LocalStore(path, read_only=True) if isinstance(path, Path) else node["store"]
        return CheckedArray.open(StorePath(store, node.get("path", "")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "store",
            str(path),
            "a store that can be read",
            f"compute(check=True) repairs what is damaged: {_line(error)}",
        ) from None


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
