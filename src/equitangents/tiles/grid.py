"""Which tiles a Gram matrix has, and which pairs of inputs each of them holds.

Tile (i, j) holds rows [i·t, (i+1)·t) and columns [j·t, (j+1)·t) of the matrix; with a group, tile (g, i, j) those of
Θ(x, ρ(g) x′). A symmetric matrix has Θ_ji = Θ_ijᵀ, and Θ_ji(g) = Θ_ij(g⁻¹)ᵀ: its tiles with i ≤ j are computed, and
written a second time where they are mirrored to.
"""

from __future__ import annotations

from dataclasses import dataclass

Tile = tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """Tiles of `tile` × `tile` pairs.

    `rows` and `columns` (None: the rows; the matrix is symmetric) are how many there were at first and after every
    addition. `inverses[g]` is g⁻¹ where the matrix has one part a group element.

    >>> grid = Grid(rows=(3, 5), columns=None, tile=4)
    >>> grid.tiles(), grid.places((0, 1)), grid.spans((0, 1))
    ([(0, 0), (0, 1), (1, 1)], [(0, 1), (1, 0)], (slice(0, 4, None), slice(4, 5, None)))
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...] | None
    tile: int
    inverses: tuple[int, ...] | None = None

    @property
    def symmetric(self) -> bool:
        """Whether rows and columns are the same inputs."""
        return self.columns is None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix, (N1, N2) or (|G|, N1, N2)."""
        elements = () if self.inverses is None else (len(self.inverses),)
        return (*elements, self.rows[-1], (self.columns or self.rows)[-1])

    @property
    def chunk(self) -> tuple[int, ...]:
        """The shape of one tile on disk; those at the edge are filled up."""
        return (*(() if self.inverses is None else (1,)), self.tile, self.tile)

    def tiles(self) -> list[Tile]:
        """All that are computed."""
        down, across = (-(-size // self.tile) for size in self.shape[-2:])
        elements: list[Tile] = [()] if self.inverses is None else [(g,) for g in range(len(self.inverses))]
        places = [(i, j) for i in range(down) for j in range(i if self.symmetric else 0, across)]
        return [(*g, *place) for place in places for g in elements]

    def places(self, tile: Tile) -> list[Tile]:
        """Where the values of a tile are kept: at its own place, and at its mirror's, unless that is computed, too."""
        *g, i, j = tile
        if not self.symmetric or i == j:
            return [tile]
        return [tile, (*(() if self.inverses is None else (self.inverses[g[0]],)), j, i)]

    def spans(self, tile: Tile) -> tuple[slice, slice]:
        """Its rows and columns."""
        rows, columns = (
            slice(k * self.tile, min((k + 1) * self.tile, size))
            for k, size in zip(tile[-2:], self.shape[-2:], strict=True)
        )
        return rows, columns

    def grew(self, tile: Tile) -> bool:
        """Whether rows or columns were added to a tile that may have been computed before."""
        sizes = (self.rows, self.columns or self.rows)
        return any(
            span.start < size < span.stop
            for span, counts in zip(self.spans(tile), sizes, strict=True)
            for size in counts
        )

    def halved(self, tile: Tile) -> bool:
        """Whether the tile is equal to its transpose, so that half of it is computed."""
        return self.symmetric and self.inverses is None and tile[-2] == tile[-1]
