"""Memory of the CPU engine beyond inputs and results.

Two panels of prepared inputs (`engine.cpp`), and for every thread the fields of one tile (`fibre.hpp`).
"""

from __future__ import annotations

import math
from functools import lru_cache

from equitangents.kernels.engines.codes import JOINED_SIDES, PANEL_BYTES, POOLED_SIDES, TILE_ROWS
from equitangents.kernels.engines.cpu.activations import changes_units, computed_in_double, described
from equitangents.kernels.engines.cpu.descriptor import SphereMean, SpherePlan, ZonalMean
from equitangents.kernels.stages import AlongFibres, Fork, StagedPlan, Step, depth, stages_of, unrolled
from equitangents.memory import threads

_VECTOR = 64  # bytes, at most


def working_bytes(plan: AlongFibres, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes for N1 × N2 pairs of inputs with `channels` channels."""
    each, tile, lanes, largest = _parts(plan, channels, itemsize)
    rows, columns = min(largest, -(-n1 // lanes) * lanes), min(largest, -(-n2 // lanes) * lanes)
    return (rows + columns) * (each + 16) + threads() * tile


@lru_cache(maxsize=256)
def _parts(plan: AlongFibres, channels: int, itemsize: int) -> tuple[int, int, int, int]:
    """(bytes of one prepared input, bytes of the fields of a thread's tile, inputs in a vector, in a panel at most)."""
    converted = itemsize < 8 and computed_in_double(plan, channels)
    itemsize = 8 if converted else itemsize
    lanes = _VECTOR // itemsize
    stages, vector = stages_of(plan), unrolled(plan.vector)[0]
    field = [op for stage in stages for op in stage.steps]
    signals = stages[0].levels[0].positions * channels * (2 if converted else 1)
    sides = sum(_sides(op, changes_units(plan)) for op in (*field, *vector)) + 2 + POOLED_SIDES * (len(stages) - 1)
    each = (2 * sides * plan.positions + signals) * itemsize
    margin = max(map(_reach, field), default=1)
    kept = max(depth(field), depth(vector))
    tile = (2 + kept) * max(plan.positions, margin, TILE_ROWS) * 2 * _VECTOR  # fields of D and Θ, by lanes
    if isinstance(plan, StagedPlan):
        tile += plan.pairs_of_positions * 2 * lanes * 8  # fields over pairs of positions, in double
        tile += sum(len(stage.fibres.array) + _VECTOR for stage in stages[1:])  # which of them were begun
        tile += (3 + 2 * kept) * max(plan.positions, margin) * lanes * 8  # variances, beside these
    products = 0 if field else 3 * TILE_ROWS * _VECTOR  # of plain vectors, with three vectors of second inputs
    tile += products + 5 * TILE_ROWS * lanes * 8 + 2 * _VECTOR * plan.positions
    return each, tile, lanes, _panel(each)


def sphere_bytes(plan: SpherePlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes for N1 × N2 pairs of signals on points of the sphere, which the inputs are made into, too."""
    lanes = _VECTOR // itemsize
    coefficients = plan.bandlimit**2 * channels + sum(n * n for n in plan.windows)
    by_point = tuple(op for op in plan.field if not isinstance(op, ZonalMean | SphereMean))
    steps = [*unrolled(by_point)[0], *unrolled(plan.vector)[0]]
    sides = coefficients + plan.positions * (2 + sum(_sides(op, changes_units(plan)) for op in steps))
    each = (2 * sides + 2 * plan.positions * channels) * itemsize
    panels = sum(min(_panel(each), -(-n // lanes) * lanes) * (each + 16) for n in (n1, n2))
    points = plan.positions * (channels * _VECTOR + (7 + 3 * depth(steps)) * 2 * _VECTOR)
    transforms = (4 * plan.degrees * (plan.rings + 1) + 4 * plan.rings + 6 * plan.degrees**2) * 2 * _VECTOR
    tile = points + transforms + (sides + coefficients) * _VECTOR + 16 * TILE_ROWS * _VECTOR
    described = 4 * 8 * sum(table.size for table in plan.tables()) + 12 * plan.turns.count
    return panels + threads() * tile + described + (n1 + n2) * plan.positions * channels * itemsize


def _panel(each: int) -> int:
    """How many inputs of so many bytes a panel holds at most."""
    return max(TILE_ROWS, PANEL_BYTES // max(each, 1) // TILE_ROWS * TILE_ROWS + TILE_ROWS)


def _sides(op: Step, changes: bool = False) -> int:
    """Numbers a position that an operation needs of each input alone, where units change beside their own."""
    if op.affine is not None:
        return 1
    if isinstance(op, Fork):
        return 0
    phi = op.nonlinearity
    found = None if phi is None else described(phi, bent=True)
    own = 2 + JOINED_SIDES * changes if found is None else found.sides(changes)
    return own + changes


def _reach(op: Step) -> int:
    """The field that a window on a grid reads, with its margins; 1 of other operations."""
    return 1 if op.grids is None else math.prod(n + w for n, w in zip(op.grids[0], op.sides, strict=True))
