"""Which tiles a Gram matrix has, and which pairs of inputs each of them holds.

Tile (i, j) holds rows [i·t, (i+1)·t) and columns [j·t, (j+1)·t) of the matrix; with a group, tile (g, i, j) those of
Θ(x, ρ(g) x′). A symmetric matrix has Θ_ji = Θ_ijᵀ, and Θ_ji(g) = Θ_ij(g⁻¹)ᵀ: its tiles with i ≤ j are computed, and
written a second time where they are mirrored to.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

Tile = tuple[int, ...]
Block = tuple[slice, slice]


@dataclass(frozen=True)
class Grid:
    """Tiles of `tile` × `tile` pairs.

    `rows` and `columns` (None: the rows; the matrix is symmetric) are how many there were at first and after every
    addition. A tile that was there before an addition and grew by it is computed in blocks, cut where it grew, so that
    its numbers do not depend on when they were computed. `inverses[g]` is g⁻¹ where the matrix has one part a group
    element.

    >>> grid = Grid(rows=(3, 5), columns=None, tile=4)
    >>> grid.tiles(), grid.mirror((0, 1))
    ([(0, 0), (0, 1), (1, 1)], (1, 0))
    >>> grid.blocks((0, 1))
    [(slice(0, 3, None), slice(4, 5, None)), (slice(3, 4, None), slice(4, 5, None))]
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
    def counts(self) -> tuple[int, ...]:
        """How many tiles there are along every axis of the whole matrix."""
        elements = () if self.inverses is None else (len(self.inverses),)
        return (*elements, self._count(self.rows), self._count(self.columns or self.rows))

    @property
    def chunk(self) -> tuple[int, ...]:
        """The shape of one tile on disk; those at the edge are filled up."""
        return (*(() if self.inverses is None else (1,)), self.tile, self.tile)

    @property
    def elements(self) -> list[Tile]:
        """What stands before (i, j) in the name of a tile: nothing, or a group element."""
        return [()] if self.inverses is None else [(g,) for g in range(len(self.inverses))]

    def tiles(self) -> list[Tile]:
        """All that are computed."""
        down, across = (self._count(cuts) for cuts in (self.rows, self.columns or self.rows))
        places = [(i, j) for i in range(down) for j in range(i if self.symmetric else 0, across)]
        return [(*g, *place) for place in places for g in self.elements]

    def mirror(self, tile: Tile) -> Tile | None:
        """Where the transposed tile stands; None where it is computed by itself."""
        *g, i, j = tile
        if not self.symmetric or i == j:
            return None
        return (*(() if self.inverses is None else (self.inverses[g[0]],)), j, i)

    def places(self, tile: Tile) -> list[Tile]:
        """Where the values of a tile are kept: at its own place, and at its mirror's."""
        mirror = self.mirror(tile)
        return [tile] if mirror is None else [tile, mirror]

    def spans(self, tile: Tile) -> Block:
        """Its rows and columns."""
        i, j = tile[-2:]
        down, across = self._pieces(self.rows, i), self._pieces(self.columns or self.rows, j)
        return slice(down[0].start, down[-1].stop), slice(across[0].start, across[-1].stop)

    def blocks(self, tile: Tile) -> list[Block]:
        """What is computed at once: one block, or several where rows were added inside of the tile."""
        i, j = tile[-2:]
        pairs = itertools.product(self._pieces(self.rows, i), self._pieces(self.columns or self.rows, j))
        half = self.halved(tile)
        return [(down, across) for down, across in pairs if not half or down.start <= across.start]

    def halved(self, tile: Tile) -> bool:
        """Whether the tile is equal to its transpose, so that half of it is computed."""
        return self.symmetric and self.inverses is None and tile[-2] == tile[-1]

    def pairs(self, tile: Tile) -> int:
        """Pairs of inputs that it holds."""
        down, across = self.spans(tile)
        return (down.stop - down.start) * (across.stop - across.start)

    def _count(self, cuts: tuple[int, ...]) -> int:
        return -(-cuts[-1] // self.tile)

    def _pieces(self, cuts: tuple[int, ...], index: int) -> list[slice]:
        start, stop = index * self.tile, min((index + 1) * self.tile, cuts[-1])
        edges = [start, *(cut for cut in cuts if start < cut < stop), stop]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]
