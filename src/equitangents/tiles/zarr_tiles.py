"""Tiles of a matrix as chunks of several Zarr arrays; those of a symmetric matrix lie at both of their places.

A tile is there once all of its files are: they are named when all are on disk, those of its own place last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Grid, Tile
from equitangents.tiles.place import write_together
from equitangents.tiles.store import DamagedTileError, State, Tiles

Values = list[np.ndarray]  # one matrix (rows, columns) for each array


@dataclass(frozen=True)
class ZarrTiles(Tiles[Tile, Values]):
    """The tiles of `grid` in `arrays`."""

    arrays: Mapping[str, Chunks]
    grid: Grid

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays' files at one place."""
        return sum(chunks.nbytes for chunks in self.arrays.values())

    def room(self, tiles: Iterable[Tile]) -> int:
        """Bytes that some tiles take, mirrored ones twice."""
        return self.nbytes * sum(len(self.grid.places(tile)) for tile in tiles)

    def is_there(self, tile: Tile) -> bool:
        """Whether all values of a tile are on disk; where rows were added to it, its last one is looked at."""
        grid = self.grid
        grew = len(grid.blocks(tile)) > 1
        for turn, place in enumerate(grid.places(tile)):
            last = None
            if grew:
                sizes = [(span.stop - 1) % grid.tile for span in grid.spans(tile)]
                last = (*(0,) * (len(tile) - 2), *(sizes if turn == 0 else sizes[::-1]))
            if not all(
                chunks.is_there(place, last) for chunks in reversed(list(self.arrays.values()))
            ):  # the last one first
                return False
        return True

    def missing(self, tiles: Iterable[Tile]) -> list[Tile]:
        """Which of `tiles` are not there; objects are listed in place of asking for each."""
        grid = self.grid
        listed = [chunks.there(grid.counts) for chunks in self.arrays.values()]
        whole = [there for there in listed if there is not None]
        if not whole:
            return super().missing(tiles)

        def is_listed(tile: Tile) -> bool:
            named = all(there[place] for there in whole for place in grid.places(tile))
            return named and (len(grid.blocks(tile)) == 1 or self.is_there(tile))

        return [tile for tile in tiles if not is_listed(tile)]

    def read(self, tile: Tile) -> Values:
        """The matrices of a tile at its own place; of one that grew, with NaN where nothing is yet."""
        return [self._cut(chunks.read(tile), tile) for chunks in self.arrays.values()]

    def known(self, tile: Tile) -> Values | None:
        """What is on disk of a tile that grew; None for one that did not grow, or is not there."""
        if len(self.grid.blocks(tile)) == 1:
            return None
        try:
            return self.read(tile)
        except (FileNotFoundError, DamagedTileError):
            return None

    def state(self, tile: Tile) -> State:
        """Whether a tile is whole, "missing" where none of its files is there or it grew, else "damaged"."""
        places = self.grid.places(tile)
        if not any(chunks.path(place).exists() for chunks in self.arrays.values() for place in places):
            return "missing"
        for chunks in self.arrays.values():
            try:
                values, *mirrored = (chunks.read(place) for place in places)
            except (DamagedTileError, OSError):
                return "damaged"
            lead = (0,) * (len(tile) - 2)
            if not np.isfinite(self._cut(values, tile)).all():
                return "missing" if len(self.grid.blocks(tile)) > 1 else "damaged"
            if not all(np.array_equal(values[lead], other[lead].T, equal_nan=True) for other in mirrored):
                return "damaged"
        return "whole"

    def write(self, tile: Tile, values: Values) -> None:
        """Put one matrix of every array where it is kept."""
        lead = (None,) * (len(tile) - 2)
        places = self.grid.places(tile)
        write_together(
            [
                chunks.file(place, (matrix if place == tile else matrix.T)[lead])
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
        return chunk[(0,) * (len(tile) - 2)][: rows.stop - rows.start, : columns.stop - columns.start]
