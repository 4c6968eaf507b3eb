"""Cost of a kernel before it is computed: operations counted, memory planned, time extrapolated from one timed block.

element-layers = pairs of inputs × Σ over pair offsets and layers of positions; a symmetric problem has N(N+1)/2 pairs.
A layer is a window mean, a nonlinearity, or both with the dense layers between them. An element-layer is one position
at one offset through one layer, NNGP and NTK together. On grids that are not a torus an offset has only the positions
whose partners lie on the grid.
seconds = pairs × the seconds per pair in a block of random inputs, computed by the same code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from equitangents import precision
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration, memory_size
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.engines.select import EngineChoice, choose, engine_of
from equitangents.kernels.plans import AddSaved, Fork, OffsetPlan, PairPlan, unrolled
from equitangents.kernels.program import Positions, Program, flat
from equitangents.kernels.projected import EquivariantOutputs, RotationMoves, numbers
from equitangents.kernels.result import result_bytes
from equitangents.kernels.rotations import (
    LADDER,
    Resolution,
    RotationSections,
    Sphere,
    nodes,
    sections,
)
from equitangents.kernels.runs import programs, rotations, steerable, structured
from equitangents.kernels.steerable import Points, SteerableProgram
from equitangents.kernels.structured import StructuredPositions, StructuredProgram, positions, reads_graphs
from equitangents.memory import threads
from equitangents.structured import Graphs
from equitangents.validation import check_whole

_COLUMNS = 16  # second inputs of a timed block: a vector of the fastest engine
_ROWS = 256  # first inputs of it, at most, for each thread
_BLOCK = 0.01  # of an engine's `quick_work`: some hundredths of a second
_REPEATS, _ENOUGH = 4, 0.3  # runs that are timed, and the seconds after which no more are
MARGIN = 1.5  # what one block leaves out: caches, a busy machine
_MOST_SIGNALS = 1000  # of which the hardest are looked at
_TYPICAL = 8  # the resolution of quadratures of equivariant outputs where signals are not known


class CostedKernel(Protocol):
    """A network or orbit average with `kernel_cost`."""

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: npt.DTypeLike = "float32"
    ) -> KernelCost:
        """The cost of the kernel between n1 and n2 inputs of `input_shape`; n2 None: of n1 inputs with themselves."""


@dataclass(frozen=True)
class KernelCost:
    """Cost of one kernel matrix.

    `seconds` is the time on this machine, now, within a factor of `uncertainty`, without compiling; `element_layers`
    counts positions × offsets × layers × pairs (a layer is a window mean with the nonlinearity after it, NNGP and NTK
    together), `multiply_adds` the first inner products of all pairs; `memory` is the peak in addition to the inputs, of
    which `output_bytes` are the two matrices. On rotation groups `offsets` are relative rotations, `field_size` the
    points of the sphere at each of them, and `resolution` the assumed nodes in cos β.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Conv(1, 3), et.nn.Relu(), et.nn.GlobalAvgPool(), et.nn.Dense(1))
    >>> cost = net.kernel_cost((8, 8, 3), 100)
    >>> cost.offsets, cost.field_size, cost.layers, cost.pairs, cost.element_layers
    (64, 64, 1, 5050, 20684800)
    """

    offsets: int
    field_size: int
    layers: int
    element_layers: int
    multiply_adds: int
    working_bytes: int
    engine: str
    form: str
    dtype: str
    pairs: int = 1
    seconds: float = 0.0
    uncertainty: float = 1.0
    output_bytes: int = 0
    notes: tuple[str, ...] = ()
    resolution: int | None = None

    @property
    def memory(self) -> int:
        """Bytes of peak memory in addition to the inputs."""
        return self.output_bytes + self.working_bytes

    def __str__(self) -> str:
        known = self.uncertainty <= 2
        rows = {
            "engine": self.engine,
            "precision": self.dtype,
            "pairs of inputs": f"{self.pairs:,}",
            _OFFSETS[self.form]: f"{self.offsets:,}",
            "positions": f"{self.field_size:,}",
            "layers": self.layers,
            "element-layers": f"{self.element_layers:.3g}",
            "multiply-adds": f"{self.multiply_adds:.3g}",
            "time": f"about {duration(self.seconds)} (within a factor of {self.uncertainty:.1f})"
            if known
            else "not known",
            "memory": memory_size(self.memory),
            "of it the results": memory_size(self.output_bytes),
        }
        lines = [f"{label:<20}{value}" for label, value in rows.items()]
        return "\n".join([*lines, *self.notes])


_OFFSETS = {"offsets": "pair offsets", "pairs": "positions of a pair", "rotations": "relative rotations"}


@dataclass(frozen=True)
class _Run:
    """A function that computes a program's kernels between two sets of arrays, for timing."""

    program: Any
    engine: str
    compute: Callable[..., Any]
    resolution: int | None = None  # of a program on rotations

    def __call__(self, x1: Any, x2: Any) -> None:
        if self.resolution is None:
            self.compute(self.program, x1, x2, self.engine)
        else:
            with precision.scope(x1.dtype):
                self.compute(self.program, self.resolution, x1, x2)


class Work(NamedTuple):
    """Work for one pair of inputs."""

    offsets: int
    field: int  # positions
    depth: int  # layers, one after another
    element_layers: int  # applications of layers to pairs of positions
    products: int  # multiply-adds of the first inner product


class _Counted(NamedTuple):
    """Cost of one pair of inputs, without time and results, and how to run a block of pairs."""

    work: Work
    working_bytes: int
    choice: EngineChoice
    form: str
    program: Any
    shape: tuple[int, ...]  # of one input
    compute: Callable[..., Any]
    notes: tuple[str, ...]
    outputs: int = 1  # numbers of a pair in each result
    diagonal_runs: int = 0  # runs of one input with itself, in addition to those of pairs
    finer: float = 1.0  # by what the work grows where inputs need more rotations than is assumed
    resolution: int | None = None


def kernel_cost(
    program: Program[Any],
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: npt.DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    """The cost of the kernels of `program` between n1 and n2 inputs (None: n1 with themselves, at half the cost).

    The first call for a program runs a block of it, which an engine may have to compile; the time is cached.
    """
    n1, n2 = check_whole("n1", n1, 1), None if n2 is None else check_whole("n2", n2, 1)
    dtype, columns = check_dtype(dtype), n1 if n2 is None else n2
    if isinstance(program.space, EquivariantOutputs):
        return _of_equivariant_outputs(program, channels, n1, n2, dtype, engine)
    pairs = n1 * (n1 + 1) // 2 if n2 is None else n1 * columns
    of = _COUNTS[type(program.space)](program, channels, n1, n2, dtype, engine)
    name, itemsize, work = of.choice.engine.name, np.dtype(dtype).itemsize, of.work
    run = _Run(of.program, name, of.compute, of.resolution)
    seconds, ratio = pair_seconds(run, of.shape, dtype, work.element_layers + work.products // 8)
    runs = pairs + of.diagonal_runs
    return KernelCost(
        offsets=work.offsets,
        field_size=work.field,
        layers=work.depth,
        element_layers=runs * work.element_layers,
        multiply_adds=runs * work.products,
        working_bytes=of.working_bytes,
        engine=name,
        form=of.form,
        dtype=dtype,
        pairs=pairs,
        seconds=pairs * seconds,
        uncertainty=MARGIN * ratio * of.finer,
        output_bytes=of.outputs * result_bytes(n1, columns, itemsize),
        notes=of.notes,
        resolution=of.resolution or None,
    )


def _of_equivariant_outputs(
    program: Program[EquivariantOutputs], channels: int, n1: int, n2: int | None, dtype: str, engine: str | None
) -> KernelCost:
    """The cost of one kernel per element, or for a quadrature of SO(3) at a typical resolution."""
    moves = program.space.moves
    typical = moves.accuracy.resolution if isinstance(moves, RotationMoves) else None
    one = kernel_cost(numbers(program), channels, n1, n2, dtype, engine)
    total = repeated([(one, len(moves.nodes(typical or _TYPICAL)))], 0)
    return replace(total, output_bytes=total.output_bytes * program.space.dimension**2)


@lru_cache(maxsize=256)
def pair_seconds(run: _Run, shape: tuple[int, ...], dtype: str, work: int) -> tuple[float, float]:
    """(seconds per pair of inputs in a block, ratio of the median to the fastest run)."""
    enough = int(_BLOCK * engine_of(run.engine).quick_work / max(1, work * _COLUMNS))
    rows = max(1, min(_ROWS, enough)) * threads()
    rng = np.random.default_rng(0)
    inputs: list[Any] = [rng.standard_normal((n, *shape)).astype(dtype) for n in (rows, _COLUMNS)]
    if hasattr(run.program, "ops") and reads_graphs(run.program):
        inputs = [Graphs(x, np.ones((len(x), x.shape[1], x.shape[1]))) for x in inputs]
    seconds, ratio = timed(lambda: run(*inputs))
    return seconds / (rows * _COLUMNS), ratio


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """(median seconds of runs after one that compiles, ratio of the median to the fastest)."""
    run()
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _ENOUGH:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    middle = float(np.median(times))
    return middle, middle / min(times)


@lru_cache(maxsize=256)
def count(plan: OffsetPlan | PairPlan) -> Work:
    """The work of `plan` for one pair of inputs; offsets are summed over stages."""
    if plan.form == "pairs":
        found = [plan.sizes[at + 1] ** 2 for at in _layers(plan.steps)]
        return Work(max(plan.sizes), max(plan.sizes), len(found), sum(found), plan.sizes[0] ** 2)
    found = [stage.levels[at + 1].held(stage.offsets.array) for stage in plan.stages for at in _layers(stage.steps)]
    found += [1] * len(_layers(plan.vector))
    products = plan.stages[0].levels[0].held(plan.stages[0].offsets.array)
    offsets = sum(len(stage.offsets.array) for stage in plan.stages)
    return Work(offsets, plan.positions, len(found), sum(found), products)


def _layers(steps: tuple[Any, ...]) -> list[int]:
    """The index of the last step of each layer: a nonlinearity, or the last window before a field is kept."""
    found: list[int] = []
    window: int | None = None
    for at, step in enumerate(steps):
        if step.nonlinearity is not None:
            found.append(at)
            window = None
        elif step.is_window or isinstance(step, Fork | AddSaved):
            found += [] if window is None else [window]
            window = at if step.is_window or step.is_total else None
    return found if window is None else [*found, window]


def _of_positions(program: Program, channels: int, n1: int, n2: int | None, dtype: str, engine: str | None) -> _Counted:
    """The work of a program on positions, by pair offset or over all pairs."""
    choice = choose(program, engine, np.dtype(dtype))
    plan = choice.engine.plan(program)
    work = count(plan)
    working = choice.engine.working_bytes(program, channels, n1, n2 or n1, np.dtype(dtype).itemsize)
    shape, notes = (*program.shape, channels), (*plan.notes, *choice.notes)
    work = work._replace(products=work.products * channels)
    return _Counted(work, working, choice, plan.form, program, shape, programs.on_positions, notes)


def _of_structured(
    program: StructuredProgram, channels: int, n1: int, n2: int | None, dtype: str, engine: str | None
) -> _Counted:
    """Work with one layer per operation over all pairs of positions; sums with an input's weights are multiply-adds."""
    choice = structured.choice_of(program, engine)
    before = positions_before = int(np.prod(program.shape, dtype=np.int64))
    mixing = 0
    for op in flat(program.ops):
        mixing += op.products(before)
        before = op.positions_after(before)
    layers = sum(op.affine is None and not (op.is_branching and op.is_open) for op in flat(program.ops))
    field, rules = positions(program), structured.rules_of(choice.engine)
    work = Work(field, field, layers, layers * field**2, positions_before**2 * channels + mixing)
    working = rules.working_bytes(program, channels, n1, n2 or n1, np.dtype(dtype).itemsize)
    shape = (*program.shape, channels)
    return _Counted(work, working, choice, "pairs", program, shape, structured.compute, choice.notes)


def _of_points(
    program: SteerableProgram, channels: int, n1: int, n2: int | None, dtype: str, engine: str | None
) -> _Counted:
    """Work of filters' products and of activation kernels, over all pairs of points; in double precision."""
    points, ops = program.space.count, [op for op in flat(program.ops) if not op.held]
    values = [op.values(program.space.features.space) for op in ops if op.needs_variances]
    products = sum(op.products(points) for op in ops)
    work = Work(points, points, len(values), sum(values) * points**2, products)
    choice, working = EngineChoice(REFERENCE, (steerable.WHY,)), steerable.working_bytes(program, points)
    counted = _Counted(work, working, choice, "pairs", program, (points, channels), steerable.compute, choice.notes)
    return counted._replace(outputs=steerable.outputs(program) ** 2, diagonal_runs=n1 + (n2 or 0))


def _of_rotations(
    full: Program[Sphere], channels: int, n1: int, n2: int | None, dtype: str, engine: str | None
) -> _Counted:
    """Relative rotations, at the resolution that random signals of unit variance need."""
    program, choice = sections(full), rotations.choice_of(full, engine)
    rules, signals = rotations.rules_of(choice.engine), min(max(n1, n2 or n1), _MOST_SIGNALS)
    found = _resolution(program, signals, channels, dtype, choice.engine.name)
    turns = nodes(program, found.value)
    field, vector = (len(_layers(unrolled(ops))) for ops in (program.field, program.vector))
    work = Work(turns, 1, field + vector, turns * field + vector, _products(program, found.value, channels))
    working = rules.working_bytes(program, found.value, channels, n1, n2, np.dtype(dtype).itemsize)
    notes = (*((_assumption(program, found),) if program.is_sampled else ()), *choice.notes)
    shape, finer = (program.bandlimit**2, channels), _of_next_resolution(program, found.value)
    counted = _Counted(work, working, choice, "rotations", program, shape, rules.kernels, notes)
    return counted._replace(finer=finer, resolution=found.value)


_COUNTS: dict[type, Callable[..., _Counted]] = {
    Positions: _of_positions,
    StructuredPositions: _of_structured,
    Points: _of_points,
    Sphere: _of_rotations,
}


def _assumption(program: RotationSections, found: Resolution) -> str:
    if program.accuracy.resolution is not None:
        return f"sampled at resolution {found.value}, as set"
    return (
        f"sampled at resolution {found.value}, where random signals of unit variance have an error of "
        f"{found.error:.0e} for a tolerance of {program.accuracy.tolerance:.0e}; larger, rougher and more alike "
        "signals need more, smaller and smoother ones less"
    )


def _of_next_resolution(program: RotationSections, resolution: int) -> float:
    """The factor by which the work grows if signals need the next finer resolution."""
    if not program.is_sampled or program.accuracy.resolution is not None:
        return 1.0
    finer = next((r for r in LADDER if r > resolution), resolution)
    return nodes(program, finer) / nodes(program, resolution)


def _products(program: RotationSections, resolution: int, channels: int) -> int:
    """Multiply-adds of the inner products of one pair at all rotations."""
    B, turns = program.bandlimit, nodes(program, resolution)
    products = sum((2 * l + 1) ** 2 for l in range(1, B))
    if not resolution:
        return products * (channels + turns)
    rings, side, n = turns // (2 * resolution - 1) ** 2, 2 * B - 1, 2 * resolution - 1
    return products * channels + rings * (side**2 * 2 * (B - 1) + n * side**2 + n**2 * side)


@lru_cache(maxsize=64)
def _resolution(program: RotationSections, signals: int, channels: int, dtype: str, engine: str) -> Resolution:
    """The resolution for random signals, in place of signals that are not known yet."""
    if program.is_sampled and program.accuracy.resolution is not None:
        return Resolution(program.accuracy.resolution, None, None)
    shape = signals, program.bandlimit**2, channels
    x = np.random.default_rng(0).normal(size=shape) * np.sqrt(4 * np.pi) / program.bandlimit
    return rotations.find_resolution(program, x.astype(dtype), None, rotations.rules_of(engine_of(engine)))


def repeated(runs: list[tuple[KernelCost, float]], extra_bytes: int) -> KernelCost:
    """The cost of several consecutive runs, whose results are summed while `extra_bytes` are held.

    The peak holds the sum, one run's results, and a temporary of the same size.
    """
    first = runs[0][0]
    total = {
        name: round(sum(getattr(cost, name) * times for cost, times in runs))
        for name in ("pairs", "element_layers", "multiply_adds")
    }
    return replace(
        first,
        **total,
        seconds=sum(cost.seconds * times for cost, times in runs),
        uncertainty=max(cost.uncertainty for cost, _ in runs),
        working_bytes=first.output_bytes + max(cost.memory for cost, _ in runs) + extra_bytes,
    )


def check_dtype(dtype: npt.DTypeLike) -> str:
    """The name of a valid precision of kernels; raises otherwise."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in ("float32", "float64"):
        raise InvalidArgumentError("dtype", dtype, "'float32' or 'float64'")
    return name
