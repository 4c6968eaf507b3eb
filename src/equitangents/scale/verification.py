"""Looking through a store: metadata, inputs and every checksum, and some tiles computed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.scale.opening import Data, write_inputs
from equitangents.scale.record import write_metadata
from equitangents.scale.work import Work
from equitangents.tiles.grid import Tile
from equitangents.tiles.place import Place

_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}  # of a tile's largest entry; machines differ in the last digits
_SHOWN = 5  # tiles by name
_MORE = "Tiles outside of the sample may be wrong as well: sample=None computes all of them again."


@dataclass(frozen=True)
class Verification:
    """What `GramStore.verify` found.

    `damaged` tiles do not have their checksum, are cut off or gone in part, or differ from their mirror; `wrong` ones
    have their checksum and are not what is computed again. `files` are metadata and inputs that were not as they must
    be. All these are `repaired`, or were only looked at. `missing` tiles were never computed. `largest_difference` is
    that of the sample, relative to the largest entry of the tile; None without a sample.
    """

    checked: int
    missing: int
    damaged: tuple[Tile, ...]
    sampled: int
    wrong: tuple[Tile, ...]
    files: tuple[Place, ...]
    largest_difference: float | None
    repaired: bool

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged or wrong."""
        return not (self.damaged or self.wrong or self.files)

    def __str__(self) -> str:
        rows = {
            "tiles checked": self.checked,
            "not computed yet": self.missing,
            "computed again": self.sampled,
            "largest difference of these": self.largest_difference,
            "damaged": _listed(self.damaged),
            "wrong numbers": _listed(self.wrong),
            "damaged files": len(self.files),
            "repaired": self.repaired and not self.ok,
        }
        lines = [f"{label:28}{value}" for label, value in rows.items()]
        return "\n".join([*lines, *([_MORE] if self.wrong else [])])


def verify(
    work: Work, data: Data, sample: int | None, repair: bool, seed: int | None
) -> tuple[Verification, list[Tile]]:
    """(what was found, tiles to be computed again); metadata and inputs are written again if `repair`."""
    files = [
        *write_metadata(work.path, work.record, repair),
        *write_inputs(work.path, work.record, data, thorough=True, repair=repair),
    ]
    states = {tile: work.tiles.state(tile) for tile in work.record.grid.tiles()}
    whole = [tile for tile, state in states.items() if state == "whole"]
    damaged = tuple(tile for tile, state in states.items() if state == "damaged")
    again = _sample(whole, sample, seed)
    differences = {} if files and not repair else {tile: _difference(work, tile) for tile in again}
    limit = _TOLERANCE[work.record.precision]
    wrong = tuple(tile for tile, difference in differences.items() if not difference <= limit)
    found = Verification(
        checked=len(whole) + len(damaged),
        missing=sum(state == "missing" for state in states.values()),
        damaged=damaged,
        sampled=len(differences),
        wrong=wrong,
        files=tuple(files),
        largest_difference=float(np.max(list(differences.values()))) if differences else None,
        repaired=repair,
    )
    return found, [*damaged, *wrong]


def _difference(work: Work, tile: Tile) -> float:
    """The largest of a tile's entries from what is computed again, relative to the largest entry."""
    errors = []
    for there, again in zip(work.tiles.read(tile), work.values(tile), strict=True):
        errors.append(np.max(np.abs(there - again)) / max(float(np.max(np.abs(again))), 1e-300))
    return float(np.max(errors))


def _sample(tiles: list[Tile], sample: int | None, seed: int | None) -> list[Tile]:
    if sample is None or sample >= len(tiles):
        return tiles
    chosen = np.random.default_rng(seed).choice(len(tiles), sample, replace=False)
    return [tiles[k] for k in sorted(chosen)]


def _listed(tiles: tuple[Tile, ...]) -> str:
    names = [str(tile) for tile in tiles[:_SHOWN]]
    return ", ".join([*names, *(["…"] if len(tiles) > _SHOWN else [])]) or "none"
