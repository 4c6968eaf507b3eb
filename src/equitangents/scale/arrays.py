"""What a store gives to read: its Zarr arrays, whose damage is an error of this package, and matrices of irreps.

K̂(ρ)_{ia,jb} = Σ_g Θ(x_i, ρ_X(g) x_j) ρ(g)_{ab}, (N1 d, N2 d). Training on all moved copies falls apart into these: the
eigenvalues of its |G|N × |G|N matrix are those of the K̂(ρ), each d times (2d where one stands for its conjugate, too).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from jaxtyping import Inexact
from zarr.storage import LocalStore, StorePath

from equitangents._types import DType
from equitangents.errors import StoreError
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.tiles.place import Place, zarr_node

_DAMAGE = ("checksum", "buffer", "size", "reshape")  # words of errors of codecs

if TYPE_CHECKING:
    _Array = zarr.Array[Any]
else:
    _Array = zarr.Array  # no generic class at run time before Zarr 3.1


def _checked(read: Callable[..., Any]) -> Callable[..., Any]:
    """A way of reading that raises StoreError for a damaged chunk."""

    @functools.wraps(read)
    def reading(array: zarr.Array[Any], /, *args: Any, **keywords: Any) -> Any:
        try:
            return read(array, *args, **keywords)
        except (ValueError, RuntimeError) as error:  # of the codecs: a checksum, a length
            if any(word in str(error) for word in _DAMAGE):
                raise StoreError(
                    "store", str(array.store_path), "undamaged tiles", f"verify() repairs it: {_line(error)}"
                ) from None
            raise

    return reading


class CheckedArray(_Array):
    """A Zarr array that is read; StoreError for a chunk that is damaged, as for anything else that is."""


for _name in ("basic", "orthogonal", "coordinate", "mask", "block"):
    setattr(CheckedArray, f"get_{_name}_selection", _checked(getattr(zarr.Array, f"get_{_name}_selection")))


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


@dataclass(frozen=True, eq=False)
class IrrepGram:
    """K̂(ρ) of one irrep ρ of dimension d; entries are computed from the store's when they are asked for.

    `gram[rows, columns]` takes slices, or the arrays of `numpy.ix_`; row i·d + a belongs to input i. `np.asarray(gram)`
    is all of it. `count` is 2 for an irrep that stands for its conjugate, too; matrices of real kind are real, and
    go into `solvers.solve` as they are.
    """

    irrep: FourierIrrep
    elements: Callable[[], CheckedArray]
    inputs: tuple[int, int]
    tile: int

    @property
    def dimension(self) -> int:
        """The size d of the matrices of the irrep."""
        return self.irrep.dimension

    @property
    def count(self) -> int:
        """2 where the irrep stands for its conjugate, too, else 1."""
        return self.irrep.count

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns, (N1 d, N2 d)."""
        return self.inputs[0] * self.dimension, self.inputs[1] * self.dimension

    @property
    def dtype(self) -> np.dtype:
        """The type of the entries: float64, or complex128 for irreps of complex kind."""
        return np.dtype(np.float64 if self.irrep.is_real else np.complex128)

    @property
    def chunks(self) -> tuple[int, int]:
        """How many rows and columns are read at a time."""
        return self.tile * self.dimension, self.tile * self.dimension

    def __getitem__(self, key: tuple[slice | np.ndarray, slice | np.ndarray]) -> Inexact[np.ndarray, "rows columns"]:
        rows, columns = (_indices(part, size) for part, size in zip(key, self.shape, strict=True))
        d = self.dimension
        (i, at_i), (j, at_j) = (np.unique(part // d, return_inverse=True) for part in (rows, columns))
        if not (len(i) and len(j)):
            return np.zeros((len(rows), len(columns)), self.dtype)
        entries = np.asarray(self._array.oindex[:, i, j], np.float64)
        (blocks,) = GroupFourier((self.irrep,)).forward(np.moveaxis(entries, 0, -1))
        return blocks[at_i[:, None], at_j[None, :], (rows % d)[:, None], (columns % d)[None, :]]

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:, :], dtype)

    @functools.cached_property
    def _array(self) -> CheckedArray:
        return self.elements()


def _indices(key: slice | np.ndarray, size: int) -> np.ndarray:
    return np.arange(size)[key] if isinstance(key, slice) else np.asarray(key).ravel()
