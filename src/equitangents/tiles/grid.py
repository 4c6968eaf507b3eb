"""Which tiles a kernel matrix has, and which pairs of inputs each of them holds.

Tile (i, j) holds rows [i·t, (i+1)·t) and columns [j·t, (j+1)·t) of the matrix. A symmetric matrix has Θ_ji = Θ_ijᵀ: its
tiles with i ≤ j are computed, and written a second time where they are mirrored to.
"""

from __future__ import annotations

from dataclasses import dataclass

Tile = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Tiles of `tile` × `tile` pairs of `rows` × `columns` inputs; `columns` None: the rows, of a symmetric matrix.

    >>> grid = Grid(rows=5, columns=None, tile=4)
    >>> grid.tiles(), grid.mirror((0, 1)), grid.spans((0, 1))
    ([(0, 0), (0, 1), (1, 1)], (1, 0), (slice(0, 4, None), slice(4, 5, None)))
    """

    rows: int
    columns: int | None
    tile: int

    @property
    def symmetric(self) -> bool:
        """Whether rows and columns are the same inputs."""
        return self.columns is None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole matrix, (N1, N2)."""
        return self.rows, self.rows if self.columns is None else self.columns

    @property
    def counts(self) -> tuple[int, int]:
        """How many tiles there are along both axes."""
        rows, columns = self.shape
        return -(-rows // self.tile), -(-columns // self.tile)

    def tiles(self) -> list[Tile]:
        """All that are computed."""
        down, across = self.counts
        return [(i, j) for i in range(down) for j in range(i if self.symmetric else 0, across)]

    def mirror(self, tile: Tile) -> Tile | None:
        """Where the transposed tile stands; None where it is computed by itself."""
        i, j = tile
        return (j, i) if self.symmetric and i != j else None

    def places(self, tile: Tile) -> list[Tile]:
        """Where the values of a tile are kept: at its own place, and at its mirror's."""
        mirror = self.mirror(tile)
        return [tile] if mirror is None else [tile, mirror]

    def spans(self, tile: Tile) -> tuple[slice, slice]:
        """Its rows and columns."""
        starts = [k * self.tile for k in tile]
        down, across = (slice(a, min(a + self.tile, n)) for a, n in zip(starts, self.shape, strict=True))
        return down, across

    def halved(self, tile: Tile) -> bool:
        """Whether the tile is equal to its transpose, so that half of it is computed."""
        return self.symmetric and tile[0] == tile[1]
