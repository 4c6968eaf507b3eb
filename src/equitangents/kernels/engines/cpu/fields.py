"""Kernel fields by the CPU engine, which writes fibres to the result where it would sum them."""

from __future__ import annotations

import numpy as np

from equitangents.kernels.engines.cpu import memory
from equitangents.kernels.engines.cpu.features import computed_in_double
from equitangents.kernels.engines.cpu.run import Kept, kept, kept_of_each
from equitangents.kernels.fields.plan import FieldPlan, places
from equitangents.kernels.plans.levels import GridLevel
from equitangents.kernels.plans.plan import PairPlan
from equitangents.kernels.plans.stages import AlongFibres
from equitangents.kernels.threads import threads

_VECTOR = 64  # bytes, at most


def field_kernels(
    plan: FieldPlan, x1: np.ndarray, x2: np.ndarray | None, instruction_set: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), each (N1, N2, *tail), between x1, (N1, *positions, C), and x2 (None: x1, at half the cost)."""
    layout = plan.part.layout
    if x2 is None and not plan.part.mirrors:
        x2 = x1
    what, picked = _kept(plan)
    results = []
    for values in kept(_steps(plan), x1, x2, what, instruction_set):
        found = values
        if picked is not None:
            found = layout.zeros((len(x1), values.shape[1]), values.dtype)
            for row, given in zip(found, values, strict=True):
                row[...] = given[:, picked]
        elif layout.crossed:
            found = values.transpose(0, 2, 1, 3)
        if x2 is None:
            _complete(found, layout.crossed)
        results.append(found)
    return results[0], results[1]


def field_diagonal(plan: FieldPlan, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of every input of x with itself, each (N, *tail)."""
    what, picked = _kept(plan)
    nngp, ntk = kept_of_each(_steps(plan), x, what)
    return (nngp, ntk) if picked is None else (nngp[:, picked], ntk[:, picked])


def working_bytes(plan: FieldPlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes that a run holds beyond inputs and results."""
    steps = _steps(plan)
    number = 8 if computed_in_double(steps, channels) else itemsize
    what, picked = _kept(plan)
    held = memory.working_bytes(steps, channels, n1, n2, itemsize)
    if what.kind == "all" and isinstance(plan.last, GridLevel):  # fibres that differ along the last axis
        held += threads() * plan.part.count * 2 * plan.last.shape[-1] * 2 * (_VECTOR // number) * number
    if what.targets is not None:
        held += what.targets.nbytes
    if picked is not None:
        held += 2 * n1 * n2 * what.numbers * itemsize + picked.nbytes
    return held


def _steps(plan: FieldPlan) -> AlongFibres:
    assert not isinstance(plan.steps, PairPlan)  # see `CpuEngine.field_obstacle`
    return plan.steps


def _kept(plan: FieldPlan) -> tuple[Kept, np.ndarray | None]:
    """(what the engine keeps, where the wanted pairs lie in it, if these are not the same)."""
    part = plan.part
    if plan.settled:  # one number a fibre
        return Kept("listed", plan.values, np.arange(plan.values, dtype=np.int32)), places(plan)
    if part.pairs is None:
        return Kept(part.kind, part.layout.numbers), None
    used, picked = np.unique(places(plan), return_inverse=True)
    targets = np.full(plan.values, -1, np.int32)
    targets[used] = np.arange(len(used), dtype=np.int32)
    return Kept("listed", len(used), targets), picked.reshape(-1)


def _complete(values: np.ndarray, crossed: bool) -> None:
    """Fill in the pairs i > j of (N, N, *tail), and make inputs with themselves exactly symmetric."""
    for i in range(len(values)):
        later = values[i, i + 1 :]
        values[i + 1 :, i] = later.swapaxes(1, 2) if crossed else later
        if crossed:
            values[i, i] = (values[i, i] + values[i, i].T) / 2
