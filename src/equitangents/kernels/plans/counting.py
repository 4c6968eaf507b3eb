"""Work of a plan for one pair of inputs, counted before it runs.

A layer is a window mean, a nonlinearity, or the two together with the dense layers between them. An element-layer is
one position of one fibre through one layer, NNGP and NTK together. Fibres on grids that are not a torus hold only the
positions whose partners lie on the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from equitangents.kernels.operation import DualActivation
from equitangents.kernels.plans.levels import Levels
from equitangents.kernels.plans.plan import FibrePlan, PairPlan
from equitangents.kernels.plans.stages import Stage, StagedPlan
from equitangents.kernels.plans.steps import Step
from equitangents.kernels.program import Op


@dataclass(frozen=True)
class LayerKind:
    """Cost class of an element-layer: window (sides of a box, or the size of a table; () is none), and its φ."""

    window: tuple[int, ...] = ()
    indexed: bool = False
    activation: DualActivation | None = None
    pairs: bool = False


@dataclass(frozen=True)
class Work:
    """Work of a pair of inputs: `layers` maps kinds to element-layers, `products`: positions of the first product."""

    fibres: int
    field: int
    depth: int
    layers: tuple[tuple[LayerKind, int], ...]
    products: int

    @property
    def element_layers(self) -> int:
        """Number of applications of layers to pairs of positions."""
        return sum(count for _, count in self.layers)


@lru_cache(maxsize=256)
def count(plan: FibrePlan | StagedPlan | PairPlan) -> Work:
    """The work of `plan` for one pair of inputs; fibres are those of all stages."""
    if plan.form == "pairs":
        found = list(_pair_layers(plan.ops, plan.positions_in))
        return Work(plan.positions, plan.positions, len(found), _merged(found), plan.positions_in**2)
    vector = [(kind, 1) for kind in _vector_layers(plan.vector)]
    if plan.is_staged:
        first = plan.stages[0]
        found = [layer for stage in plan.stages for layer in _stage_layers(stage)] + vector
        products = first.levels[0].held(first.fibres.array)
        fibres = sum(len(stage.fibres.array) for stage in plan.stages)
        return Work(fibres, plan.positions, len(found), _merged(found), products)
    along = plan.fibres.array
    found = list(_fibre_layers(plan.field, plan.levels, along)) + vector
    products = plan.levels.levels[0].held(along)
    return Work(len(along), plan.positions, len(found), _merged(found), products)


def _merged(found: list[tuple[LayerKind, int]]) -> tuple[tuple[LayerKind, int], ...]:
    total: dict[LayerKind, int] = {}
    for kind, elements in found:
        total[kind] = total.get(kind, 0) + elements
    return tuple(total.items())


def _fibre_layers(ops: tuple[Op, ...], levels: Levels, fibres: np.ndarray) -> Iterator[tuple[LayerKind, int]]:
    for kind, at, inner in _layers(ops):
        if inner is None:
            yield kind, levels.levels[at + 1].held(fibres)
        else:
            held = levels.branches[at]
            assert held is not None
            for branch, own in zip(inner, held.branches, strict=True):
                assert own is not None
                yield from _fibre_layers(branch, own, fibres)


def _stage_layers(stage: Stage) -> Iterator[tuple[LayerKind, int]]:
    for kind, at, _ in _layers(stage.steps):
        yield kind, stage.levels[at + 1].held(stage.fibres.array)


def _vector_layers(ops: tuple[Op, ...]) -> Iterator[LayerKind]:
    for kind, _, inner in _layers(ops):
        if inner is None:
            yield kind
        else:
            for branch in inner:
                yield from _vector_layers(branch)


def _pair_layers(ops: tuple[Op, ...], positions: int) -> Iterator[tuple[LayerKind, int]]:
    sizes = [positions]
    for op in ops:
        sizes.append(op.positions_after(sizes[-1]))
    for kind, at, inner in _layers(ops):
        if inner is None:
            yield LayerKind(kind.window, kind.indexed, kind.activation, pairs=True), sizes[at + 1] ** 2
        else:
            for branch in inner:
                yield from _pair_layers(branch, sizes[at])


def _layers(ops: tuple[Step, ...]) -> Iterator[tuple[LayerKind, int, tuple[tuple[Op, ...], ...] | None]]:
    """(kind, number of the operation after which the layer ends, operations of branches in its place)."""
    window: tuple[LayerKind, int] | None = None
    for at, op in enumerate(ops):
        if op.nonlinearity is not None:
            kind = LayerKind() if window is None else window[0]
            yield LayerKind(kind.window, kind.indexed, op.nonlinearity), at, None
            window = None
            continue
        if not (op.is_window or op.held or op.ends_layer):
            continue
        if window is not None:
            yield *window, None
            window = None
        if op.is_total:  # one sum over all positions serves every window: hardly more than the first product
            window = LayerKind(), at
        elif op.is_window:
            window = LayerKind(op.sides or (op.span,), indexed=not op.sides), at
        elif op.held:
            yield LayerKind(), at, op.held
    if window is not None:
        yield *window, None
