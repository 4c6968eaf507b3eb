"""How large the reference engine's tiles are, and what a run of it holds: memory planned beforehand.

A tile's working set is (largest field) × (pairs in the tile) × (about ten fields); tiles are chosen to stay near the
cache, so that peak memory does not grow with N1·N2·positions².
"""

from __future__ import annotations

from equitangents.errors import MemoryLimitError
from equitangents.kernels.plans.plan import FibrePlan, PairPlan

TILE_ELEMENTS = 1 << 17  # numbers in one field of a tile
_FIELDS = 12  # fields alive at once, at most, while a tile runs
_MEMORY_LIMIT = 4 << 30  # bytes for one tile; only networks over all pairs of positions can come near
PANEL = 64 << 20  # bytes of prepared inputs that are held at a time, on each side


def tile_sides(steps: FibrePlan | PairPlan, n1: int, n2: int, itemsize: int) -> tuple[int, int]:
    """Rows and columns of a tile; raises MemoryLimitError if even one pair of inputs is too large."""
    field = steps.positions if isinstance(steps, FibrePlan) else steps.positions**2
    needed = field * _FIELDS * itemsize
    if needed > _MEMORY_LIMIT:
        raise MemoryLimitError(
            f"one pair of inputs needs {needed / 2**30:.1f} GiB over all {steps.positions}² pairs of positions, more "
            f"than {_MEMORY_LIMIT / 2**30:.0f} GiB; use smaller inputs, a strided first layer, or a network whose "
            "fibres close (one kind of padding before each pool)"
        )
    pairs = max(1, TILE_ELEMENTS // field)
    side = max(1, int(pairs**0.5))
    rows = min(n1, side)
    return rows, min(n2, max(1, pairs // rows))


def prepared_numbers(steps: FibrePlan | PairPlan, channels: int) -> int:
    """How many numbers are held of one input: itself, and its moments at every level."""
    if isinstance(steps, FibrePlan):
        levels = [level.positions for level in steps.levels.levels]
        return levels[0] * channels + 2 * sum(levels) + 2 * (len(steps.vector) + 1)
    return steps.positions * channels + 2 * steps.positions * (len(steps.ops) + 1)


def working_bytes(steps: FibrePlan | PairPlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that the reference engine holds beyond inputs and results: two panels of inputs, tables and one tile."""
    rows, columns = tile_sides(steps, n1, n2, itemsize)
    each = prepared_numbers(steps, channels) * itemsize
    panels = sum(min(-(-n // side) * side * each, max(PANEL, side * each)) for n, side in ((n1, rows), (n2, columns)))
    field = steps.positions if isinstance(steps, FibrePlan) else steps.positions**2
    return panels + rows * columns * field * _FIELDS * itemsize
