"""Work of a plan for one pair of inputs, counted before it runs.

A layer is a window mean, a nonlinearity, or the two together with the dense layers between them. An element-layer is
one position of one fibre through one layer, NNGP and NTK together. Fibres on grids that are not a torus hold only the
positions whose partners lie on the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from equitangents.kernels.plans.plan import PairPlan
from equitangents.kernels.plans.stages import AlongFibres, Step, stages_of
from equitangents.kernels.program import Op


@dataclass(frozen=True)
class Work:
    """Work of a pair of inputs: `products` are the positions of the first inner product."""

    fibres: int
    field: int
    depth: int  # layers, one after another
    element_layers: int  # applications of layers to pairs of positions
    products: int


@lru_cache(maxsize=256)
def count(plan: AlongFibres | PairPlan) -> Work:
    """The work of `plan` for one pair of inputs; fibres are those of all stages."""
    if plan.form == "pairs":
        found = list(_pair_layers(plan.ops, plan.positions_in))
        return Work(plan.positions, plan.positions, len(found), sum(found), plan.positions_in**2)
    stages = stages_of(plan)
    found = [stage.levels[at + 1].held(stage.fibres.array) for stage in stages for at, _ in _layers(stage.steps)]
    found += vector_layers(plan.vector)
    products, fibres = stages[0].levels[0].held(stages[0].fibres.array), sum(len(s.fibres.array) for s in stages)
    return Work(fibres, plan.positions, len(found), sum(found), products)


def vector_layers(ops: tuple[Any, ...]) -> Iterator[int]:
    """1 for each layer of operations at a single position."""
    for _, inner in _layers(ops):
        if inner is None:
            yield 1
        else:
            for branch in inner:
                yield from vector_layers(branch)


def _pair_layers(ops: tuple[Op, ...], positions: int) -> Iterator[int]:
    sizes = [positions]
    for op in ops:
        sizes.append(op.positions_after(sizes[-1]))
    for at, inner in _layers(ops):
        if inner is None:
            yield sizes[at + 1] ** 2
        else:
            for branch in inner:
                yield from _pair_layers(branch, sizes[at])


def _layers(ops: tuple[Step, ...]) -> Iterator[tuple[int, tuple[tuple[Op, ...], ...] | None]]:
    """(number of the operation after which a layer ends, operations of branches in its place)."""
    window: int | None = None
    for at, op in enumerate(ops):
        if op.nonlinearity is not None:
            yield at, None
            window = None
            continue
        if not (op.is_window or op.held or op.ends_layer):
            continue
        if window is not None:
            yield window, None
            window = None
        if op.is_window or op.is_total:
            window = at
        elif op.held:
            yield at, op.held
    if window is not None:
        yield window, None
