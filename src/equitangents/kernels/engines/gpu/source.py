"""The kernel of one network in CUDA C++: settings and stages written for it, after the engine's own source.

A stage is a window (or the start) and the pointwise operations that follow it; every stage reads one field of the
fibre and writes the other, both in shared memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.kernels import duals
from equitangents.kernels.engines.cpu.library import native_folders
from equitangents.kernels.engines.gpu.shape import Level, Shape, shape_of, three
from equitangents.kernels.engines.gpu.sides import DUAL_SIDES, Side, has_mean
from equitangents.kernels.engines.reference.tile import carries_distance
from equitangents.kernels.operation import LinearMap
from equitangents.kernels.operations import Box, Decouple, Dual, Table
from equitangents.kernels.plans.plan import FibrePlan, index_tables
from equitangents.kernels.plans.steps import AddSaved, Fork, unrolled
from equitangents.kernels.units import unit_bias

HEADERS = (
    "gpu/scalar.hpp",
    "codes.hpp",
    "program.hpp",
    "polynomials.hpp",
    "elementary.hpp",
    "piecewise_linear.hpp",
    "erf.hpp",
    "gelu.hpp",
    "trigonometric.hpp",
    "gpu/block.hpp",
    "gpu/geometry.hpp",
    "gpu/pairs.hpp",
    "gpu/fibre.hpp",
    "gpu/kernel.hpp",
)
NAMES = {"float32": ("eqt_fibres_float", "float"), "float64": ("eqt_fibres_double", "double")}


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a kernel, and what goes with it."""

    text: str
    name: str
    shape: Shape
    sides: tuple[Side, ...]
    size: int  # numbers per input in `sides`
    tables: np.ndarray  # int32
    reals: np.ndarray  # weights of windows


def folder() -> Path | None:
    """Where the engine's headers are installed, if they are."""
    places = (folder / "gpu_source" for folder in native_folders())
    return next((place for place in places if (place / "fibre.hpp").exists()), None)


@cache
def _common() -> str:
    place = folder()
    assert place is not None
    parts = []
    for name in HEADERS:
        lines = (place / Path(name).name).read_text(encoding="utf-8").splitlines()
        keep = (
            line for line in lines if not line.startswith(('#include "', "#pragma once"))
            and (name == HEADERS[0] or not line.startswith("#include"))
        )  # fmt: skip
        parts.append("\n".join(keep))
    return "\n".join(parts)


@cache
def source_key() -> str:
    """A hash of what all kernels have in common."""
    return hashlib.sha256(_common().encode()).hexdigest()


@lru_cache(maxsize=64)
def source(plan: FibrePlan, channels: int, dtype: str) -> Source:
    """The kernel of a plan that has no obstacle, for inputs with `channels` channels."""
    return _Writer(plan, channels, dtype).source()


class _Writer:
    def __init__(self, plan: FibrePlan, channels: int, dtype: str) -> None:
        self.plan, self.channels, self.dtype = plan, channels, dtype
        self.shape = shape_of(plan, np.dtype(dtype).itemsize)
        self.steps, self.levels = unrolled(plan.field, plan.levels)
        self.means = self.find_means()
        self.units = unit_bias(plan.field, plan.vector) is not None
        self.lines: list[str] = []
        self.sides: list[Side] = []
        self.side_end = 0
        self.tables: list[np.ndarray] = [self.shape.labels]
        self.table_end = self.shape.labels.size
        self.at: dict[str, int] = {}
        self.reals: list[float] = []

    def source(self) -> Source:
        for i, level in enumerate(self.shape.levels):
            self.lines.append(f"using Level{i} = {self.level(level)};")
        stages = self.stages()
        name, number = NAMES[self.dtype]
        text = "\n".join(
            [
                _common(),
                "namespace eqt::EQT_ISA {",
                *self.lines,
                "struct Network {",
                *(f"  static constexpr {kind} {key} = {value};" for kind, key, value in self.settings()),
                "  template <class T, class Run>",
                "  static EQT_INLINE void stages(Run& run) {",
                *(f"    {stage};" for stage in stages),
                "  }",
                "};",
                "}  // namespace eqt::EQT_ISA",
                f"EQT_KERNEL({name}, {number})",
                "",
            ]
        )
        tables = np.concatenate([t.ravel() for t in self.tables]).astype(np.int32)
        reals = np.array(self.reals or [0.0])
        return Source(text, name, self.shape, tuple(self.sides), self.side_end, tables, reals)

    def settings(self) -> list[tuple[str, str, Any]]:
        plan, shape = self.plan, self.shape
        labels = plan.labels.array
        last = shape.levels[-1]
        one_block = bool((labels == 0).all())
        diagonal = plan.single and bool((labels >= 0).all())
        whole = last.torus or last.is_paired
        half = self.side(0.5, len(self.steps), 1)
        unit = self.unit()
        positions = self.levels[0].positions
        return [
            ("int", "kCrew", shape.crew),
            ("int", "kPairs", shape.pairs),
            ("int", "kFibres", shape.fibres),
            ("int", "kThreads", shape.threads),
            ("int", "kRows", shape.rows),
            ("int", "kSlots", shape.slots),
            ("int", "kCells", shape.cells),
            ("int64_t", "kPartials", shape.fields_bytes),
            ("int", "kChannels", self.channels),
            ("int64_t", "kInputs", positions * self.channels),
            ("int", "kLabels", self.table(plan.labels.key, labels)),
            ("int64_t", "kFibreCount", len(shape.labels)),
            ("int", "kLabelSize", shape.labels.shape[1]),
            ("bool", "kAllJoined", str(bool(diagonal or (one_block and whole))).lower()),
            ("bool", "kDistance", str(carries_distance(plan)).lower()),
            ("int", "kLastSide", half),
            ("double", "kWeight", repr(float(plan.block_weight))),
            ("int", "kUnitSide", unit),
            ("int64_t", "kSides", self.side_end),
        ]

    def level(self, level: Level) -> str:
        key = level.table
        return level.written(-1 if key is None else self.table(key, index_tables((), self.levels)[key]))

    def stages(self) -> list[str]:
        spatial = [i for i, op in enumerate(self.steps) if op.is_window]
        begins = [-1, *spatial]
        found = []
        for number, i in enumerate(begins):
            end = begins[number + 1] if number + 1 < len(begins) else len(self.steps)
            sink = "Store" if number + 1 < len(begins) else "Readout"
            into = f"typename Run::template {sink}<{number % 2}>"
            if i < 0:
                self.point(number, 0, end, 1.0)
                found.append(f"run.template start<Level0, Point{number}, {into}>()")
                continue
            op = self.steps[i]
            found.append(_WINDOWS[type(op)](self, op, i, number, end, into))
        return found

    def box(self, op: Box, i: int, number: int, end: int, into: str) -> str:
        into_level, from_level = self.shape.levels[i + 1], self.shape.levels[i]
        axes = zip(three(op.window), three(op.stride), three(op.low, 0), strict=True)
        reach = ", ".join(f"Reach<{w}, {s}, {low}>" for w, s, low in axes)
        at = -1
        if not op.wrap and (any(op.low) or any(op.high)):
            at = self.side(1.0, i, 1)
        scale = 1.0 / float(np.prod(op.window))
        self.point(number, i + 1, end, scale)
        window = f"Window<{reach}, {str(op.wrap).lower()}, {at}>"
        wrapped = op.wrap and into_level.torus
        assert not op.wrap or from_level.torus
        arguments = f"Point{number}, {into}"
        if at >= 0 and from_level == into_level and set(op.stride) == {1}:
            return f"run.template padded_box<{window}, Level{i + 1}, {arguments}>()"
        kind = "wrapped_box" if wrapped else "plain_box"
        return f"run.template {kind}<{window}, Level{i}, Level{i + 1}, {arguments}>()"

    def window_table(self, op: Table, i: int, number: int, end: int, into: str) -> str:
        self.point(number, i + 1, end, 1.0)
        index, weights = op.index.array, op.weights.array
        if _is_total(index, weights, self.levels[i].positions):
            return f"run.template total<Level{i}, Level{i + 1}, Point{number}, {into}>()"
        at = len(self.reals)
        self.reals += weights.tolist()
        arguments = f"{self.table(op.index.key, index)}, {at}, {index.shape[1]}"
        return f"run.template table<{arguments}, Level{i + 1}, Point{number}, {into}>()"

    def point(self, number: int, begin: int, end: int, scale: float) -> None:
        """The pointwise operations [begin, end), after a factor `scale`, as one function."""
        ops = self.steps[begin:end]
        lines: list[str] = []
        skip = False
        for k, op in enumerate(ops):
            if skip:
                skip = False
                continue
            following = ops[k + 1] if k + 1 < len(ops) else None
            if op.affine is not None:
                phi = None if following is None else following.nonlinearity
                merged = phi if isinstance(phi, duals.PiecewiseLinear) else None
                lines += self.affine(op.affine, begin + k, scale, merged)
                skip, scale = merged is not None, 1.0
                continue
            lines += self.scaling(scale)
            scale = 1.0
            lines += _POINTS[type(op)](self, op, begin + k)
        lines += self.scaling(scale)
        self.lines += [
            f"struct Point{number} {{",
            "  template <class T>",
            "  static EQT_INLINE void apply(const Pair<T>& at, bool diagonal, Cell<T>* kept, T& d, T& theta) {",
            "    (void)at, (void)diagonal, (void)kept, (void)d, (void)theta;",
            *(f"    {line}" for line in lines),
            "  }",
            "};",
        ]

    def decouple(self, op: Decouple, i: int) -> list[str]:
        return [f"if (!diagonal) {{ {self.get(self.side(1.0, i, 1), 1)} d = x[0] + y[0]; theta = 0; }}"]

    def fork(self, op: Fork, i: int) -> list[str]:
        return [f"kept[{op.slot} * {self.shape.cells}] = {{d, theta}};"]

    def dual(self, op: Dual, i: int) -> list[str]:
        kind = type(op.activation)
        at = self.side(kind, i, DUAL_SIDES[kind])
        return [f"{{ {self.get(at, DUAL_SIDES[kind])} {_dual(op.activation)}.pair(d, theta, x, y); }}"]

    def affine(self, op: LinearMap, i: int, scale: float, dual: duals.PiecewiseLinear | None) -> list[str]:
        factor = f"T({op.W_var * scale!r})"
        grown = f"d *= {factor};"
        if self.units and op.b_var:
            grown = f"d = {factor} * d + T({op.b_var!r}) * at.unit_gap();"
        if dual is None:
            at = self.side(0.5, i + 1, 1)
            return [f"{{ {self.get(at, 1)} {grown} theta = (x[0] + y[0] - T(0.5) * d) + {factor} * theta; }}"]
        at = self.side(duals.PiecewiseLinear, i + 1, 2)
        covariance = "T(0.5) * (x[0] * x[0] + (y[0] * y[0] - d))"
        return [
            f"{{ {self.get(at, 2)} {grown} theta = {factor} * theta + {covariance};"
            f" {_dual(dual)}.pair(d, theta, x, y); }}"
        ]

    def unit(self) -> int:
        """Where one over the unit of an input is, behind all other sides; -1: there is none."""
        if not self.units:
            return -1
        self.side_end += 2
        return self.side_end - 2

    def join(self, op: AddSaved, i: int) -> list[str]:
        """The field of the fork is added; where both have means, E[(f+g)(f'+g')] gains their products."""
        lines = []
        if self.means[op.fork] and self.means[i]:
            at = self.side(op.fork, i, 2)
            lines = [f"{{ {self.get(at, 2)} d += T(2) * (x[0] - y[0]) * (x[1] - y[1]); }}"]
        slot = f"kept[{op.slot} * {self.shape.cells}]"
        return [*lines, f"d += {slot}.d; theta += {slot}.theta;"]

    def find_means(self) -> list[bool]:
        """Whether the field has a mean at every level: inputs have."""
        found = [True]
        for step in self.steps:
            if isinstance(step, Fork):
                found.append(found[-1])
            elif isinstance(step, AddSaved):
                found.append(found[-1] or found[step.fork])
            else:
                found.append(has_mean(step, found[-1]))
        return found

    def scaling(self, scale: float) -> list[str]:
        return [] if scale == 1.0 else [f"d *= T({scale!r}); theta *= T({scale!r});"]

    def get(self, at: int, count: int) -> str:
        return f"T x[{count}], y[{count}]; at.template get<{at}, {count}>(x, y);"

    def side(self, kind: type | float | int, level: int, count: int) -> int:
        """Where these sides begin; equal ones are kept once. Always at an even number, for loads of two at a time."""
        for side in self.sides:
            if type(side.kind) is type(kind) and side.kind == kind and side.level == level:
                return side.at
        at = self.side_end
        self.sides.append(Side(kind, level, count, at))
        self.side_end += count * self.levels[level].positions
        self.side_end += self.side_end % 2
        return at

    def table(self, key: str, array: np.ndarray) -> int:
        """Where a table begins; equal ones are stored once."""
        if key not in self.at:
            self.at[key] = self.table_end
            self.tables.append(array)
            self.table_end += array.size
        return self.at[key]


# How windows are run, each as a call of one of the templates.
_WINDOWS: dict[type, Callable[[Any, Any, int, int, int, str], str]] = {Box: _Writer.box, Table: _Writer.window_table}
# What a point does by an operation that is not linear: each writes its lines of the function.
_POINTS: dict[type, Callable[[Any, Any, int], list[str]]] = {
    Decouple: _Writer.decouple,
    Fork: _Writer.fork,
    AddSaved: _Writer.join,
    Dual: _Writer.dual,
}
_DUALS: dict[type, Callable[[Any], str]] = {
    duals.PiecewiseLinear: lambda phi: f"PiecewiseLinear<T>(linear_pieces({float(phi.slope)!r}))",
    duals.Sin: lambda phi: "Trigonometric<T>(1)",
    duals.Cos: lambda phi: "Trigonometric<T>(-1)",
}


def _dual(activation: Any) -> str:
    named = _DUALS.get(type(activation))
    return f"{type(activation).__name__}<T>()" if named is None else named(activation)


def _is_total(index: np.ndarray, weights: np.ndarray, positions: int) -> bool:
    """Whether every window holds every position equally often, so that all sums are one."""
    ordered = np.sort(index, axis=1)
    counts = np.bincount(index[0], minlength=positions)
    even = np.ptp(weights) <= 1e-15 * np.abs(weights).max()
    return bool((ordered == ordered[0]).all() and np.ptp(counts) == 0 and even)
