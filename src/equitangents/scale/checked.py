"""Zarr arrays of a store whose damage is an error of this package: Zarr has only ValueErrors of its codecs."""

from __future__ import annotations

from typing import Any

import zarr

from equitangents.errors import StoreError
from equitangents.tiles.place import Place, zarr_node

_DAMAGE = ("checksum", "buffer", "size", "reshape")  # words of errors of codecs


class CheckedArray(zarr.Array[Any]):
    """A Zarr array that is read; StoreError for a chunk that is damaged, as for anything else that is."""

    def get_basic_selection(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers at slices and single places; StoreError for a damaged chunk."""
        return _checked(self, super().get_basic_selection, *args, **kwargs)

    def get_orthogonal_selection(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers at the crossings of rows and columns; StoreError for a damaged chunk."""
        return _checked(self, super().get_orthogonal_selection, *args, **kwargs)

    def get_coordinate_selection(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers at single places; StoreError for a damaged chunk."""
        return _checked(self, super().get_coordinate_selection, *args, **kwargs)

    def get_mask_selection(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers where a mask is True; StoreError for a damaged chunk."""
        return _checked(self, super().get_mask_selection, *args, **kwargs)

    def get_block_selection(self, *args: Any, **kwargs: Any) -> Any:
        """Whole chunks by their numbers; StoreError for a damaged one."""
        return _checked(self, super().get_block_selection, *args, **kwargs)


def open_checked(path: Place) -> CheckedArray:
    """The array in a folder; StoreError where it, or what describes it, is damaged or gone."""
    try:
        return CheckedArray(zarr.open_array(**zarr_node(path), mode="r").async_array)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {_line(error)}; verify() repairs what is damaged") from None


def _checked(array: CheckedArray, read: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return read(*args, **kwargs)
    except (ValueError, RuntimeError) as error:  # of the codecs: a checksum, a length
        if any(word in str(error) for word in _DAMAGE):
            raise StoreError(f"{array.store_path} is damaged: {_line(error)}; verify() repairs it") from None
        raise


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
