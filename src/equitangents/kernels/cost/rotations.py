"""Cost of kernels on rotation groups: nodes and points counted, time from one tile of the run.

seconds = tiles / threads × seconds of a tile + seconds for finding the resolution. How finely rotations are sampled
depends on the signals, which are not known beforehand: as many random ones of unit variance stand in for them.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from equitangents import precision
from equitangents.errors import NetworkError
from equitangents.kernels.cost.calibration import Rate, timed, uncertainty
from equitangents.kernels.cost.forecast import KernelCost, asked
from equitangents.kernels.engines.protocol import RotationRules
from equitangents.kernels.fields.part import Part
from equitangents.kernels.rotations.program import RotationSections, field_points, nodes
from equitangents.kernels.rotations.resolution import LADDER, LADDER_OF_FIELDS, Resolution
from equitangents.kernels.runs.rotations import choose_engine, find_resolution, rules_of
from equitangents.kernels.threads import threads

_MOST_SIGNALS = 1000  # of which the hardest are looked at
_LEAST_SECONDS, _MOST_PIECES = 0.03, 64  # that are timed


def kernel_cost(
    program: RotationSections,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: npt.DTypeLike = "float32",
    engine: str | None = None,
    part: Part | None = None,
) -> KernelCost:
    """The cost of kernels between n1 and n2 signals with `channels` channels (None: n1 with themselves).

    The first call for a network runs a tile, and on the reference engine compiles what the kernels themselves will
    run; later calls remember.
    """
    if part is not None:
        raise NetworkError("the cost of kernel fields between rotations is not known")
    chosen, note = choose_engine(program, engine)
    rules = rules_of(chosen)
    wanted = asked(n1, n2, dtype)
    name, itemsize, pairs = wanted.dtype, wanted.itemsize, wanted.pairs
    signals = min(max(n1, n2 or 0), _MOST_SIGNALS)
    found = _resolution(program, signals, channels, name, rules)
    rotations, points = nodes(program, found.value), field_points(program, found.value)
    rows, columns = rules.piece(program, found.value, n1, n2, itemsize)
    layers = [_layers(ops) for ops in (program.sphere, program.field, program.vector)]
    rate = _rate(program, found.value, rules, channels, rows, columns, name)
    seconds = rules.pieces(n1, n2, rows, columns) * rate.seconds + _search_seconds(
        program, signals, channels, name, rules
    )
    notes = (_assumption(program, found),) if program.is_sampled else ()
    return KernelCost(
        fibres=rotations,
        field_size=points,
        layers=sum(layers),
        pairs=pairs,
        element_layers=pairs * (rotations * (points * layers[0] + layers[1]) + layers[2]),
        multiply_adds=pairs * _products(program, found.value, channels, rules),
        seconds=seconds,
        uncertainty=uncertainty([rate.spread]) * _of_next_resolution(program, found.value),
        output_bytes=wanted.result_bytes,
        working_bytes=rules.working_bytes(program, found.value, channels, n1, n2, itemsize),
        engine=chosen.name,
        form="rotations",
        dtype=name,
        notes=notes if note is None else (*notes, note),
        resolution=found.value or None,
    )


def _assumption(program: RotationSections, found: Resolution) -> str:
    if program.accuracy.resolution is not None:
        return f"sampled at resolution {found.value}, as asked for"
    return (
        f"sampled at resolution {found.value}, where random signals of unit variance have an error of "
        f"{found.error:.0e} for a tolerance of {program.accuracy.tolerance:.0e}; larger, rougher and more alike "
        "signals need more, smaller and smoother ones less"
    )


def _of_next_resolution(program: RotationSections, resolution: int) -> float:
    """By what the work grows if signals need the next finer resolution."""
    if not program.is_sampled or program.accuracy.resolution is not None:
        return 1.0
    ladder: tuple[int, ...] = LADDER_OF_FIELDS if program.sphere else LADDER
    finer = next((r for r in ladder if r > resolution), resolution)
    work, more = (nodes(program, r) * field_points(program, r) for r in (resolution, finer))
    return more / work


def _layers(ops: tuple[Any, ...]) -> int:
    """Window means, nonlinearities, or the two together."""
    found, window = 0, False
    for op in ops:
        found += sum(map(_layers, op.held))
        if op.nonlinearity is not None:
            found, window = found + 1, False
        elif op.is_window:
            found, window = found + window, True
    return found + window


def _products(program: RotationSections, resolution: int, channels: int, rules: RotationRules) -> int:
    """Multiply-adds of the inner products of one pair at all rotations, and of windows, as they are computed."""
    B = program.bandlimit
    products = sum((2 * l + 1) ** 2 for l in range(1, B))
    if program.readout == "flatten":
        return B * B * channels
    if program.sphere:
        return nodes(program, resolution) * rules.products_on_sphere(program, resolution, channels)
    if not resolution:
        return products * (channels + program.group.order)
    rings, side, n = nodes(program, resolution) // (2 * resolution - 1) ** 2, 2 * B - 1, 2 * resolution - 1
    return products * channels + rings * (side**2 * 2 * (B - 1) + n * side**2 + n**2 * side)


@lru_cache(maxsize=64)
def _rate(
    program: RotationSections, resolution: int, rules: RotationRules, channels: int, rows: int, columns: int, dtype: str
) -> Rate:
    """Seconds of one such piece on every thread; of several, where one is too short to time."""
    rng = np.random.default_rng(0)
    x2 = _signals(rng, columns, program.bandlimit, channels, dtype)

    def pieces(count: int) -> Rate:
        x1 = _signals(rng, count * rows * threads(), program.bandlimit, channels, dtype)
        seconds, spread = timed(lambda: rules.kernels(program, resolution, x1, x2))
        return Rate(seconds / count, spread)

    with precision.scope(dtype):
        one = pieces(1)
        count = min(_MOST_PIECES, int(_LEAST_SECONDS / one.seconds))
        return pieces(count) if count > 1 else one


@lru_cache(maxsize=64)
def _resolution(program: RotationSections, count: int, channels: int, dtype: str, rules: RotationRules) -> Resolution:
    """The resolution for random signals, which stand in for signals that are not known yet."""
    x = _signals(np.random.default_rng(0), count, program.bandlimit, channels, dtype)
    return find_resolution(program, x, None, rules)


@lru_cache(maxsize=64)
def _search_seconds(program: RotationSections, count: int, channels: int, dtype: str, rules: RotationRules) -> float:
    """Seconds for finding the resolution, with which every kernel starts; what that takes is compiled by now."""
    start = time.perf_counter()
    _resolution.__wrapped__(program, count, channels, dtype, rules)
    return time.perf_counter() - start


def _signals(rng: np.random.Generator, count: int, bandlimit: int, channels: int, dtype: str) -> np.ndarray:
    return (rng.normal(size=(count, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit).astype(dtype)
