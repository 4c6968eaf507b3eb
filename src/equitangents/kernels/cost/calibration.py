"""Speed of this machine for one layer type: small programs, timed once per process.

seconds = Σ over kinds of layers (element-layers × seconds each) + (multiply-adds of the first product × seconds each)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from equitangents.kernels.engines import REFERENCE, Engine
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Box, Dual, Flatten, Pool, Table
from equitangents.kernels.plans.counting import LayerKind, count
from equitangents.kernels.plans.plan import plan
from equitangents.kernels.program import GroupFibres, Op, Positions, Program
from equitangents.kernels.runs.programs import compute

_DEPTH = 2  # layers of a calibrating program
_SIDES = {1: 64, 2: 12, 3: 6}  # of its grid, by dimension
_PAIR_SIDES = {1: 12, 2: 4, 3: 3}
_ORDER = 48  # of its group
_REPEATS = 4
_CHANNELS = 512  # of the vectors whose products are timed
_MARGIN = 1.5  # what the model leaves out: caches, the shape of fields, a busy machine


class Rate(NamedTuple):
    """Seconds for one unit of work, and the factor between the median and the fastest of the runs that were timed."""

    seconds: float
    spread: float


def uncertainty(spreads: list[float]) -> float:
    """The factor within which a forecast made of such rates is expected to lie."""
    return _MARGIN * max(spreads, default=1.0)


@lru_cache(maxsize=256)
def layer_rate(engine: Engine, dtype: str, kind: LayerKind) -> Rate:
    """Seconds for one element-layer of `kind`; boxes and tables too large for a calibration are scaled."""
    program, scale = _program(kind)
    each = count(plan(program)).element_layers
    inputs = _inputs(engine, each)
    x = np.random.default_rng(0).standard_normal((inputs, *program.shape, 1)).astype(dtype)
    seconds, spread = timed(lambda: _run(program, x, engine))
    return Rate(seconds / (each * inputs**2) * scale, spread)


@lru_cache(maxsize=16)
def product_rate(engine: Engine, dtype: str) -> Rate:
    """Seconds for one multiply-add of a first inner product."""
    inputs = _inputs(engine, 20)
    program = Program(Positions(()), (Affine(1.0, 0.0),))
    x = np.random.default_rng(0).standard_normal((inputs, _CHANNELS)).astype(dtype)
    seconds, spread = timed(lambda: _run(program, x, engine))
    return Rate(seconds / (inputs**2 * _CHANNELS), spread)


def _inputs(engine: Engine, work: int) -> int:
    """As many inputs as the work to be timed allows, by whole vectors of the fastest engine."""
    return int(max(1.0, min(32.0, (engine.calibration_work() / work) ** 0.5 / 16))) * 16


def _run(program: Program, x: np.ndarray, engine: Engine) -> None:
    # What an engine leaves to JAX, such as the layers after a readout, is timed as JAX runs it.
    chosen = engine if engine.obstacle(program, x.dtype) is None else REFERENCE
    compute(program, x, x.copy(), chosen.name)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """(median seconds of a run after one that compiles, the factor between the median and the fastest)."""
    run()  # compiles
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    middle = float(np.median(times))
    return middle, middle / min(times)


def _program(kind: LayerKind) -> tuple[Program, float]:
    """A program of layers of `kind` alone, and what its time must be multiplied by."""
    if kind.indexed:
        return _group_program(kind)
    dual = () if kind.activation is None else (Dual(kind.activation),)
    d = len(kind.window)
    if d == 0:
        layers: tuple[Op, ...] = (Affine(1.5, 0.1), *dual) * _DEPTH
        return Program(Positions(()), (*layers, Affine(1.0, 0.0))), 1.0
    side = (_PAIR_SIDES if kind.pairs else _SIDES).get(d, 2)
    window = tuple(min(w, side) for w in kind.window)
    scale = sum(kind.window) / sum(window)
    low = tuple((w - 1) // 2 for w in window)
    high = tuple(w - 1 - l for w, l in zip(window, low, strict=True))
    shape = (side,) * d
    box = Box(shape, shape, window, (1,) * d, low, high, wrap=True)
    ops = ((box, Affine(1.5, 0.1), *dual) * _DEPTH, (Flatten(), Affine(1.0, 0.0)))
    return Program(Positions(shape), (*ops[0], *ops[1]), form="pairs" if kind.pairs else "auto"), scale


def _group_program(kind: LayerKind) -> tuple[Program, float]:
    order = 12 if kind.pairs else _ORDER
    elements = np.arange(order)
    addition = ((elements[:, None] + elements) % order).astype(np.int32)
    wanted = kind.window[0]
    size = min(wanted, order - 1)
    index = FrozenArray(addition[:, :size])
    table = Table(index, FrozenArray(np.full(size, 1 / size)))
    dual = () if kind.activation is None else (Dual(kind.activation),)
    ops = (table, Affine(1.5, 0.1), *dual) * _DEPTH
    everything = Pool(FrozenArray(np.zeros(order, np.int32)), 1)
    lift = GroupFibres(FrozenArray(addition), FrozenArray(addition))
    program = Program(Positions((order,), lift), (*ops, everything), "pairs" if kind.pairs else "auto")
    return program, wanted / size
