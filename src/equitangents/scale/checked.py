"""Zarr arrays of a store whose damage is an error of this package: Zarr has only ValueErrors of its codecs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import zarr
from zarr.storage import LocalStore, StorePath

from equitangents.errors import StoreError
from equitangents.tiles.place import Place, zarr_node

_DAMAGE = ("checksum", "buffer", "size", "reshape")  # words of errors of codecs

if TYPE_CHECKING:
    _Array = zarr.Array[Any]
else:
    _Array = zarr.Array  # no generic class at run time before Zarr 3.1

P = ParamSpec("P")
Found = TypeVar("Found")


def _checked(
    read: Callable[Concatenate[zarr.Array[Any], P], Found],
) -> Callable[Concatenate[zarr.Array[Any], P], Found]:
    """A way of reading that raises StoreError for a damaged chunk."""

    @functools.wraps(read)
    def reading(array: zarr.Array[Any], /, *args: P.args, **kwargs: P.kwargs) -> Found:
        try:
            return read(array, *args, **kwargs)
        except (ValueError, RuntimeError) as error:  # of the codecs: a checksum, a length
            if any(word in str(error) for word in _DAMAGE):
                raise StoreError(
                    "store", str(array.store_path), "undamaged tiles", f"verify() repairs it: {_line(error)}"
                ) from None
            raise

    return reading


class CheckedArray(_Array):
    """A Zarr array that is read; StoreError for a chunk that is damaged, as for anything else that is."""

    get_basic_selection = _checked(zarr.Array.get_basic_selection)
    get_orthogonal_selection = _checked(zarr.Array.get_orthogonal_selection)
    get_coordinate_selection = _checked(zarr.Array.get_coordinate_selection)
    get_mask_selection = _checked(zarr.Array.get_mask_selection)
    get_block_selection = _checked(zarr.Array.get_block_selection)


def open_checked(path: Place) -> CheckedArray:
    """The array in a folder; StoreError where it, or what describes it, is damaged or gone."""
    try:
        node = zarr_node(path)
        store = LocalStore(path, read_only=True) if isinstance(path, Path) else node["store"]
        return CheckedArray.open(StorePath(store, node.get("path", "")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "store", str(path), "a store that can be read", f"verify() repairs what is damaged: {_line(error)}"
        ) from None


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
