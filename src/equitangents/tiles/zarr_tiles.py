"""Tiles of a matrix as chunks of several Zarr arrays; those of a symmetric matrix lie at both of their places.

A tile is there once all of its files are: they are named when all are on disk, those of its own place last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from equitangents.files import write_together
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Grid, Tile
from equitangents.tiles.store import DamagedTileError, State, Tiles

Values = list[np.ndarray]  # one matrix (rows, columns) for each array


@dataclass(frozen=True)
class ZarrTiles(Tiles[Tile, Values]):
    """The tiles of `grid` in `arrays`."""

    arrays: Mapping[str, Chunks]
    grid: Grid

    def room(self, tiles: Iterable[Tile]) -> int:
        """Bytes that some tiles take, mirrored ones twice."""
        nbytes = sum(chunks.nbytes for chunks in self.arrays.values())
        return nbytes * sum(len(self.grid.places(tile)) for tile in tiles)

    def is_there(self, tile: Tile) -> bool:
        """Whether all files of a tile are there, the last one, which is looked at first, included."""
        places, arrays = self.grid.places(tile), list(self.arrays.values())
        return all(chunks.is_there(place) for place in places for chunks in reversed(arrays))

    def read(self, tile: Tile) -> Values:
        """The matrices of a tile at its own place."""
        return [self._cut(chunks.read(tile), tile) for chunks in self.arrays.values()]

    def state(self, tile: Tile) -> State:
        """Whether a tile is whole, "missing" where none of its files is there, else "damaged"."""
        places = self.grid.places(tile)
        if not any(chunks.path(place).exists() for chunks in self.arrays.values() for place in places):
            return "missing"
        for chunks in self.arrays.values():
            try:
                values, *mirrored = (chunks.read(place) for place in places)
            except (DamagedTileError, OSError):
                return "damaged"
            same = all(np.array_equal(values, other.T, equal_nan=True) for other in mirrored)
            if not (same and np.isfinite(self._cut(values, tile)).all()):
                return "damaged"
        return "whole"

    def write(self, tile: Tile, values: Values) -> None:
        """Put one matrix of every array where it is kept."""
        places = self.grid.places(tile)
        write_together(
            [
                chunks.file(place, matrix if place == tile else matrix.T)
                for chunks, matrix in zip(self.arrays.values(), values, strict=True)
                for place in reversed(places)  # the mirror first: its own place, the last one, says that all is there
            ]
        )

    def remove(self, tile: Tile) -> None:
        """Remove a tile, if it is there."""
        for place in self.grid.places(tile):
            for chunks in self.arrays.values():
                chunks.remove(place)

    def _cut(self, chunk: np.ndarray, tile: Tile) -> np.ndarray:
        """What a chunk holds of the matrix."""
        rows, columns = self.grid.spans(tile)
        return chunk[: rows.stop - rows.start, : columns.stop - columns.start]
