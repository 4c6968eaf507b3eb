"""Symmetric matrices as used by solvers: products with several vectors, blocks, columns and the diagonal.

A matrix may be an array in memory, on disk (a memory map, Zarr), a `GramStore`, or a kernel whose tiles are recomputed
on each access. Products are accumulated in float64 whatever the entries are.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from equitangents.errors import InvalidTypeError, NotFiniteError, ShapeError, StoreError
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import draws_noise
from equitangents.kernels.program import VERSION, described
from equitangents.scale import GramStore
from equitangents.scale.identity import network_hash
from equitangents.scale.place import Place
from equitangents.validation import check_unmasked

_TILE = 1024
_DIAGONAL = 64
Span = slice
Index = slice | np.ndarray


class SymmetricMatrix(abc.ABC):
    """A real symmetric N × N matrix; `dtype` is that of its entries, `tile` the side of blocks that are cheap to read.

    in_memory: whether its entries are an array in memory, so that repeated reads cost nothing.
    """

    size: int
    dtype: np.dtype
    tile: int
    in_memory: bool = False
    label: str = "a matrix"
    folder: Place | None = None  # of the store that it is read from

    @abc.abstractmethod
    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Entries of some rows and columns (slices or indices), in their own dtype."""

    @abc.abstractmethod
    def diagonal(self) -> np.ndarray:
        """All A_ii, (N,), in float64."""

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """The columns with these indices, (N, k), in float64."""
        parts = [self.block(rows, indices) for rows in spans(self.size, self.tile)]
        return np.concatenate(parts).astype(np.float64, copy=False)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """A V for V (N, k), in float64, reading one tile of each symmetric pair. NotFiniteError for NaN."""
        total = np.zeros(vectors.shape)
        for rows, columns in self.tiles():
            entries = self.block(rows, columns).astype(np.float64, copy=False)
            total[rows] += entries @ vectors[columns]
            if rows != columns:
                total[columns] += entries.T @ vectors[rows]
        return self.finite(total)

    def assembled(self, dtype: np.dtype | None = None) -> np.ndarray:
        """All entries in one array of `dtype`, mirrored below the diagonal. NotFiniteError for NaN."""
        array = np.empty((self.size, self.size), dtype or self.dtype)
        for rows, columns in self.tiles():
            entries = self.finite(self.block(rows, columns))
            array[rows, columns] = entries
            array[columns, rows] = entries.T
        return array

    def fingerprint(self) -> str:
        """A hash of all entries, to identify files on disk computed from this matrix."""
        digest = hashlib.sha256(f"{self.size} {self.dtype.name}".encode())
        for span in spans(self.size, self.tile):
            digest.update(np.ascontiguousarray(self.block(span, slice(span.start, None))).tobytes())
        return digest.hexdigest()

    def landmark_rows(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """At least `count` random rows, ascending, whose columns are cheap to read together; None: any rows are.

        If entries are computed in groups, landmarks and pivots are drawn from a few groups.
        """
        return None

    def tiles(self) -> Iterator[tuple[Span, Span]]:
        """The tiles on and above the diagonal."""
        parts = list(spans(self.size, self.tile))
        return ((parts[i], parts[j]) for i in range(len(parts)) for j in range(i, len(parts)))

    def finite(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers, unchanged; NotFiniteError if some are not finite."""
        bad = ~np.isfinite(numbers)
        if bad.any():
            expected = "finite entries, whose products float64 holds"
            verb = "holds NaN or infinite values, such as"
            raise NotFiniteError(self.label, float(numbers[bad][0]), expected, verb=verb)
        return numbers


class ArrayMatrix(SymmetricMatrix):
    """A square array: NumPy's, a memory map, or a Zarr array, which is read in tiles of its chunks."""

    def __init__(self, array: Any, label: str = "matrix") -> None:
        shape = tuple(array.shape)
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
            raise ShapeError(label, shape, "a square one")
        if np.dtype(array.dtype).kind not in "fiu":
            raise InvalidTypeError("matrix", array.dtype, "real numbers", label, verb="has entries of type")
        self.array = array
        self.size = shape[0]
        self.dtype = _working(np.dtype(array.dtype))
        chunk = getattr(array, "chunks", None)
        self.tile = int(chunk[0]) if chunk else _TILE
        self.in_memory = isinstance(array, np.ndarray) and not isinstance(array, np.memmap)
        self.label = label

    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Entries of some rows and columns; from Zarr, full chunks are read."""
        if isinstance(rows, slice) and isinstance(columns, slice):
            return np.asarray(self.array[rows, columns], self.dtype)
        every = np.arange(self.size)
        rows, columns = every[rows], every[columns]
        entries = (
            self.array.oindex[rows, columns] if hasattr(self.array, "oindex") else self.array[np.ix_(rows, columns)]
        )
        return np.asarray(entries, self.dtype)

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """Some columns, as rows of the symmetric array, in float64."""
        return np.ascontiguousarray(self.block(indices, slice(None)).T, np.float64)

    def diagonal(self) -> np.ndarray:
        """All A_ii, in float64."""
        if self.in_memory:
            return np.diagonal(self.array).astype(np.float64)
        return np.concatenate([np.diagonal(self.block(s, s)) for s in spans(self.size, self.tile)]).astype(np.float64)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """A V in float64, by rows for an array in memory, by tiles for one on disk."""
        if not self.in_memory:
            return super().product(vectors)
        if self.array.dtype == np.float64:
            return self.finite(self.array @ vectors)
        return self.finite(np.concatenate([self.block(s, slice(None)) @ vectors for s in spans(self.size, 256)]))


class StoreMatrix(ArrayMatrix):
    """The NTK or NNGP of a complete, symmetric `GramStore`."""

    def __init__(self, store: GramStore, field: str) -> None:
        if len(store.shape) != 2 or store.shape[0] != store.shape[1]:
            raise ShapeError("store", store.shape, "one square matrix", str(store.path), verb="has shape")
        if store.missing:
            done = len(store.tiles) - store.missing
            raise StoreError("store", done, len(store.tiles), "compute() computes the others", verb="holds tiles,")
        super().__init__(getattr(store, field), f"the {field.upper()} in {store.path}")
        self.store, self.folder, self._field = store, store.path, field

    @cached_property
    def array(self) -> Any:  # of what was unpickled or loaded; means do not need it
        """The Zarr array, opened on first use; StoreError if it is gone."""
        if not self.store.is_current:
            raise StoreError(
                "store",
                str(self.store.path),
                "the kernel of the training set, which was kept there",
                "put it back, or fit the model again",
            )
        return getattr(self.store, self._field)

    def fingerprint(self) -> str:
        """The hash of the store's record, which determines its numbers; tiles have their own checksums."""
        return f"{self._field} {self.store.fingerprint}"


class KernelMatrix(SymmetricMatrix):
    """`kernel` ("ntk" or "nngp") of a network between inputs x (N, …), its tiles recomputed on each access."""

    def __init__(self, net: KernelFunction, x: Any, kernel: str = "ntk", tile: int = _TILE) -> None:
        self.kernel, self.x, self.field = net, x, kernel
        self.size, self.tile = len(x), min(tile, len(x))
        self.dtype = _working(x.dtype)
        self.label = f"the {kernel.upper()} of {self.size} inputs"

    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Computed entries of some rows and columns; an input in both shares its own noise."""
        if isinstance(rows, slice) and isinstance(columns, slice) and rows == columns:
            return np.asarray(getattr(self.kernel.kernel(self.x[rows]), self.field))
        every = np.arange(self.size)
        one, other = every[rows], every[columns]
        if not (draws_noise(self.kernel) and np.isin(self._inputs_of(one), self._inputs_of(other)).any()):
            return np.asarray(getattr(self.kernel.kernel(self.x[rows], self.x[columns]), self.field))
        both, at = np.unique(np.concatenate([one, other]), return_inverse=True)
        entries = np.asarray(getattr(self.kernel.kernel(self.x[both]), self.field))
        return entries[np.ix_(at[: len(one)], at[len(one) :])]

    def diagonal(self) -> np.ndarray:
        """Each input's kernel with itself, (N,); from blocks if the network has no `kernel_diagonal`."""
        if hasattr(self.kernel, "kernel_diagonal"):
            return np.asarray(getattr(self.kernel.kernel_diagonal(self.x), self.field), np.float64)
        return np.concatenate([np.diagonal(self.block(s, s)) for s in spans(self.size, _DIAGONAL)]).astype(np.float64)

    def fingerprint(self) -> str:
        """A hash of network and inputs, or of all entries if the network has no description by content."""
        try:
            network = network_hash(self.kernel, self.x.shape[1:])
        except InvalidTypeError:
            return super().fingerprint()
        parts = (VERSION, self.field, network, described(np.asarray(self.x)))
        return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()

    def _inputs_of(self, rows: np.ndarray) -> np.ndarray:
        """The input of each row; rows of one input share its noise."""
        return rows


class ScaledMatrix(SymmetricMatrix):
    """The matrix s_i A_ij s_j + d_i δ_ij, for training on rows that each represent s_i² equal samples.

    above: d, (N,), for ridges that differ between rows. None for scale or above: all 1, or all 0.
    """

    def __init__(
        self, matrix: SymmetricMatrix, scale: np.ndarray | None = None, above: np.ndarray | None = None
    ) -> None:
        self.matrix, self.scale, self.above = matrix, scale, above
        self.size, self.label, self.dtype = matrix.size, matrix.label, matrix.dtype
        self.tile, self.folder, self.in_memory = matrix.tile, matrix.folder, matrix.in_memory

    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Entries of some rows and columns."""
        return self._entries(self.matrix.block(rows, columns), rows, columns)

    def fingerprint(self) -> str:
        """The fingerprint of the matrix, and hashes of s and d."""
        hashes = ("" if a is None else hashlib.sha256(a.tobytes()).hexdigest() for a in (self.scale, self.above))
        return " ".join((self.matrix.fingerprint(), *hashes))

    def diagonal(self) -> np.ndarray:
        """s_i² A_ii + d_i, (N,)."""
        found = self.matrix.diagonal() * (1.0 if self.scale is None else self.scale**2)
        return found if self.above is None else found + self.above

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """The columns with these indices, (N, k)."""
        return self._entries(self.matrix.columns(indices), slice(None), indices)

    def landmark_rows(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """The landmark rows of the unscaled matrix."""
        return self.matrix.landmark_rows(count, rng)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """S A S V + d V."""
        if self.scale is None:
            found = self.matrix.product(vectors)
        else:
            found = self.scale[:, None] * self.matrix.product(self.scale[:, None] * vectors)
        return found if self.above is None else found + self.above[:, None] * vectors

    def _entries(self, entries: np.ndarray, rows: Index, columns: Index) -> np.ndarray:
        if self.scale is not None:
            entries = entries * np.outer(self.scale[rows], self.scale[columns])
        if self.above is None:
            return entries
        every = np.arange(self.size)
        same = np.equal.outer(every[rows], every[columns])
        return entries + np.where(same, self.above[rows][:, None], 0).astype(entries.dtype)


def as_matrix(matrix: Any, field: str = "ntk") -> SymmetricMatrix:
    """A `SymmetricMatrix` for an array, a `GramStore` or (kernel, inputs)."""
    if isinstance(matrix, SymmetricMatrix):
        return matrix
    if isinstance(matrix, GramStore):
        return StoreMatrix(matrix, field)
    if isinstance(matrix, tuple) and len(matrix) == 2 and callable(getattr(matrix[0], "kernel", None)):
        return KernelMatrix(matrix[0], np.asarray(matrix[1]), field)
    if hasattr(matrix, "shape") and hasattr(matrix, "dtype") and hasattr(matrix, "__getitem__"):
        check_unmasked("matrix", matrix)
        # subclasses such as np.matrix have ways of their own
        kept = hasattr(matrix, "chunks") or isinstance(matrix, np.memmap)
        return ArrayMatrix(matrix if kept else np.asarray(matrix))
    if isinstance(matrix, list):
        return ArrayMatrix(np.asarray(matrix, np.float64))
    raise InvalidTypeError(
        "matrix",
        type(matrix),
        "a square array (NumPy, memory map, Zarr), a scale.GramStore, or a pair (network, inputs)",
        verb="is of type",
    )


def _working(dtype: np.dtype) -> np.dtype:
    """float32 for float32 in either byte order and for float16; else float64."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def spans(size: int, step: int) -> Iterator[Span]:
    """Slices of at most `step` that cover 0 … size."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
