"""What kernels on rotation groups will cost: nodes and points counted, time from one tile of the run itself.

seconds = tiles / threads × seconds of a tile + seconds for finding the resolution. How finely rotations are sampled
depends on the signals, which are not known beforehand: as many random ones of unit variance stand in for them.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents import precision
from equitangents.kernels.calibration import Rate, timed, uncertainty
from equitangents.kernels.cost import KernelCost, check_dtype
from equitangents.kernels.engines.cpu.library import threads
from equitangents.kernels.program import Branch, Dual
from equitangents.kernels.rotations import compiled, tiles
from equitangents.kernels.rotations.compute import choose_engine, engine_run, find_resolution
from equitangents.kernels.rotations.fields import BATCH, sphere_resolution
from equitangents.kernels.rotations.program import RotationProgram, Zonal
from equitangents.kernels.rotations.resolution import LADDER, LADDER_OF_FIELDS, Resolution
from equitangents.kernels.size import result_bytes
from equitangents.validation import check_whole

_FIELDS = 12  # fields alive at once, at most
_MOST_SIGNALS = 1000  # of which the hardest are looked at
_LEAST_SECONDS, _MOST_PIECES = 0.03, 64  # that are timed
_ENGINE_SIDE = 64  # signals on each side of what is timed of an engine without tiles


def kernel_cost(
    program: RotationProgram,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: Any = "float32",
    engine: str | None = None,
) -> KernelCost:
    """The cost of kernels between n1 and n2 signals with `channels` channels (None: n1 with themselves).

    The first call for a network runs a tile and compiles what the kernels themselves will run, which for windows
    narrower than the sphere takes as long as a small kernel; later calls remember.
    """
    chosen, note = choose_engine(program, engine)
    n1 = check_whole("n1", n1, 1)
    n2 = None if n2 is None else check_whole("n2", n2, 1)
    name = check_dtype(dtype)
    itemsize = np.dtype(name).itemsize
    signals = min(max(n1, n2 or 0), _MOST_SIGNALS)
    found = _resolution(program, signals, channels, name, chosen)
    rotations, points = nodes(program, found.value), field_points(program, found.value)
    pairs = n1 * (n1 + 1) // 2 if n2 is None else n1 * n2
    rows, columns = _unit(program, found.value, chosen, n1, n2, itemsize)
    layers = [_layers(ops) for ops in (program.sphere, program.field, program.vector)]
    rate = _rate(program, found.value, chosen, channels, rows, columns, name)
    units = _units(chosen, n1, n2, rows, columns)
    seconds = units * rate.seconds + _search_seconds(program, signals, channels, name, chosen)
    notes = (_assumption(program, found),) if program.is_sampled else ()
    return KernelCost(
        fibres=rotations,
        field_size=points,
        layers=sum(layers),
        pairs=pairs,
        element_layers=pairs * (rotations * (points * layers[0] + layers[1]) + layers[2]),
        multiply_adds=pairs * _correlation(program, found.value, channels),
        seconds=seconds,
        uncertainty=uncertainty([rate.spread]) * _of_next_resolution(program, found.value),
        output_bytes=result_bytes(n1, n2 or n1, itemsize),
        working_bytes=(compiled.working_bytes if chosen == "cpu" else working_bytes)(
            program, found.value, channels, n1, n2, itemsize
        ),
        engine=chosen,
        form="rotations",
        dtype=name,
        notes=notes if note is None else (*notes, note),
        resolution=found.value or None,
    )


def _assumption(program: RotationProgram, found: Resolution) -> str:
    if program.accuracy.resolution is not None:
        return f"sampled at resolution {found.value}, as asked for"
    return (
        f"sampled at resolution {found.value}, where random signals of unit variance have an error of "
        f"{found.error:.0e} for a tolerance of {program.accuracy.tolerance:.0e}; larger, rougher and more alike "
        "signals need more, smaller and smoother ones less"
    )


def _of_next_resolution(program: RotationProgram, resolution: int) -> float:
    """By what the work grows if signals need the next finer resolution."""
    if not program.is_sampled or program.accuracy.resolution is not None:
        return 1.0
    ladder: tuple[int, ...] = LADDER_OF_FIELDS if program.sphere else LADDER
    finer = next((r for r in ladder if r > resolution), resolution)
    work, more = (nodes(program, r) * field_points(program, r) for r in (resolution, finer))
    return more / work


def nodes(program: RotationProgram, resolution: int) -> int:
    """Relative rotations at which the recursion runs."""
    if program.readout == "flatten":
        return 1
    if not resolution:
        return program.group.order
    return resolution * (2 * resolution - 1) ** 2 * (2 if getattr(program.group, "reflections", False) else 1)


def field_points(program: RotationProgram, resolution: int) -> int:
    """Points of the sphere that a field has at each of them."""
    if not program.sphere:
        return 1
    s = sphere_resolution(program.bandlimit, resolution)
    return s * (2 * s - 1)


def _layers(ops: tuple[Any, ...]) -> int:
    """Window means, nonlinearities, or the two together."""
    found, window = 0, False
    for op in ops:
        if isinstance(op, Branch):
            found += _layers(op.ops)
        elif isinstance(op, Dual):
            found, window = found + 1, False
        elif isinstance(op, Zonal):
            found, window = found + window, True
    return found + window


def _correlation(program: RotationProgram, resolution: int, channels: int) -> int:
    """Multiply-adds of the inner products of one pair at all rotations, as they are computed."""
    B = program.bandlimit
    products = sum((2 * l + 1) ** 2 for l in range(1, B))
    if program.readout == "flatten":
        return B * B * channels
    if program.sphere:
        return nodes(program, resolution) * field_points(program, resolution) * B * B * channels
    if not resolution:
        return products * (channels + program.group.order)
    rings, side, n = nodes(program, resolution) // (2 * resolution - 1) ** 2, 2 * B - 1, 2 * resolution - 1
    return products * channels + rings * (side**2 * 2 * (B - 1) + n * side**2 + n**2 * side)


def working_bytes(
    program: RotationProgram, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
) -> int:
    """Bytes held beyond inputs and results: the signals in tiles, the quadrature, and a tile for every thread."""
    B, rows, columns = program.bandlimit, *tiles.tile_shape(program, resolution, n1, n2, itemsize)
    sides = (-(-n1 // rows) * rows + (0 if n2 is None else -(-n2 // columns) * columns)) * B * B * channels
    pairs, rotations, points = rows * columns, nodes(program, resolution), field_points(program, resolution)
    if program.sphere:
        s = sphere_resolution(B, resolution)
        samples = points * s * s + 10 * rotations
        batch = min(BATCH, rotations)
        tile = points * (batch * (s * s + pairs * (channels + _FIELDS)) + 2 * channels * pairs)
    elif program.readout == "flatten":
        samples, tile = 0, pairs * (B * B * channels + _FIELDS)
    elif not resolution:
        samples = rotations * B**3 * 4 // 3
        tile = pairs * (2 * B**3 + 64 * _FIELDS)
    else:
        ring, rings, side = (2 * resolution - 1) ** 2, rotations // (2 * resolution - 1) ** 2, 2 * B - 1
        samples = rings * side**2 * 2 * (B - 1) + rotations
        tile = pairs * (2 * side**2 * (rings + 2 * B) + ring * _FIELDS)
    return (sides + samples + threads() * tile) * itemsize


def _unit(
    program: RotationProgram, resolution: int, engine: str, n1: int, n2: int | None, itemsize: int
) -> tuple[int, int]:
    """Signals of both sides in the piece of work that is timed on every thread."""
    if engine == "reference":
        return tiles.tile_shape(program, resolution, n1, n2, itemsize)
    return min(n1, _ENGINE_SIDE), min(n2 or n1, _ENGINE_SIDE)


def _units(engine: str, n1: int, n2: int | None, rows: int, columns: int) -> float:
    """How many such pieces follow each other on every thread; the reference engine computes whole tiles."""
    if engine != "reference":
        return (n1 * (n1 + 1) / 2 if n2 is None else n1 * n2) / (rows * columns * threads())
    down, across = -(-n1 // rows), -(-(n2 or n1) // columns)
    count = down * (down + 1) // 2 if n2 is None else down * across
    return -(-count // threads())


@lru_cache(maxsize=64)
def _rate(
    program: RotationProgram, resolution: int, engine: str, channels: int, rows: int, columns: int, dtype: str
) -> Rate:
    """Seconds of one such piece on every thread; of several, where one is too short to time."""
    rng = np.random.default_rng(0)
    run = engine_run(engine)
    x2 = _signals(rng, columns, program.bandlimit, channels, dtype)

    def pieces(count: int) -> Rate:
        x1 = _signals(rng, count * rows * threads(), program.bandlimit, channels, dtype)
        seconds, spread = timed(lambda: run(program, resolution, x1, x2))
        return Rate(seconds / count, spread)

    with precision.scope(dtype):
        one = pieces(1)
        count = min(_MOST_PIECES, int(_LEAST_SECONDS / one.seconds))
        return pieces(count) if count > 1 else one


@lru_cache(maxsize=64)
def _resolution(program: RotationProgram, count: int, channels: int, dtype: str, engine: str) -> Resolution:
    """That of random signals, which stand in for signals that are not known yet."""
    x = _signals(np.random.default_rng(0), count, program.bandlimit, channels, dtype)
    return find_resolution(program, x, None, engine)


@lru_cache(maxsize=64)
def _search_seconds(program: RotationProgram, count: int, channels: int, dtype: str, engine: str) -> float:
    """Seconds for finding the resolution, with which every kernel starts; what that takes is compiled by now."""
    start = time.perf_counter()
    _resolution.__wrapped__(program, count, channels, dtype, engine)
    return time.perf_counter() - start


def _signals(rng: np.random.Generator, count: int, bandlimit: int, channels: int, dtype: str) -> np.ndarray:
    return (rng.normal(size=(count, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit).astype(dtype)
