"""Where the violation starts: the error after each layer, for any orthogonal action on hidden features.

How features transform is unknown. If by orthogonal matrices (permutations of positions and channels are), then
H_g = H Q_g for features H (inputs × features) of some inputs and H_g of the moved inputs, and both have one Gram
matrix, which is all that is kept of a layer. The smallest error over all orthogonal Q,

    min_Q ‖H_g − H Q‖² / ‖H‖² = (tr K + tr K_g − 2 tr (K^½ K_g K^½)^½) / tr K,    K = H Hᵀ, K_g = H_g H_gᵀ,

is 0 exactly if some action of the layer's output fits; the first layer where it is not breaks the symmetry.
Source of the formula: Schönemann 1966 (orthogonal Procrustes); in terms of K it is the Bures distance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.audit.adapters import LayerTrace, Model
from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.measure.judge import NO_GROUP, Measured
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.report.sections import LayerReason, LayerResult, LayerSection
from equitangents.errors import MissingLibraryError, NetworkError

_ROWS = 24
_FEWEST_ROWS = 4
_BYTES = 2**30
_ELEMENTS = 4
_ROUNDING = {4: 2e-5, 8: 1e-6}  # error by rounding of features in float32 and float64

_HALF_ROUNDINGS = 8.0  # of features in half precision
_BLOCK = 2**16  # columns that are converted to double precision at a time
_VANISHES = 1e-15


def layer_errors(m: Measured) -> LayerSection | str:
    """The error after each layer and where it starts, or why it is not known.

    If the whole model is equivariant, later layers mend what an earlier one breaks.
    """
    task, model = m.task, m.task.model
    if task.contract.not_a_group:
        return NO_GROUP
    if any(task.x.axes):
        return "the batch is not along the first axis, and the batch axis of features is not known"
    try:
        rows = task.rows(_affordable(task, model) if model.fixed_batch is None else min(model.fixed_batch, task.x.n))
        if model.fixed_batch is not None and len(rows) != model.fixed_batch:
            return f"the model takes batches of {model.fixed_batch}, more than there are inputs"
        results, guilty, reason = _follow(task, model, task.x.subset(rows))
    except (MissingLibraryError, NetworkError) as error:
        return str(error)
    if not results:
        return f"a model of kind {model.kind!r} does not show its layers"
    if m.verdict == "equivariant" and guilty is not None:
        guilty, reason = None, "mended"
    return LayerSection(results, guilty, reason)


def _affordable(task: AuditTask, model: Model) -> int:
    """Number of inputs whose features fit in memory; a model that streams its layers holds one at a time."""
    if model.streams:
        return max(_FEWEST_ROWS, min(_ROWS, task.batch_size))
    one = _traced(task, model, task.x.subset(np.arange(1)))
    held = sum(int(np.prod(t.outputs.shape)) * t.outputs.dtype.itemsize for t in one or [])
    return int(np.clip(_BYTES // max(held, 1), _FEWEST_ROWS, _ROWS))


def _follow(task: AuditTask, model: Model, x: InputLeaves) -> tuple[list[LayerResult], str | None, LayerReason]:
    """(all layers, where the violation starts, why), from x, x again and moved x through the layers."""
    start = _traced(task, model, x)
    if not start:
        return [], None, "none"
    again = _traced(task, model, x)
    assert again is not None
    noise = np.array([misfit(a.outputs, b.outputs) for a, b in zip(start, again, strict=True)])
    exact = [g for g in task.elements if task.contract.inputs.moves_exactly(g)]
    chosen = (exact or task.elements)[:_ELEMENTS]
    before, after, floor = (np.zeros(len(start)) for _ in range(3))
    for g in chosen:
        there = task.contract.move(g, x)
        moved = _traced(task, model, there)
        _raise(before, start, moved, lambda t: t.inputs)
        _raise(after, start, moved, lambda t: t.outputs)
        if not exact:
            returned = _traced(task, model, task.contract.move(task.contract.group.inverse(g), there))
            _raise(floor, start, returned, lambda t: t.outputs)
    size = min(8, max(4, min(t.outputs.dtype.itemsize for t in start)))
    rounding = max(_ROUNDING[size], _HALF_ROUNDINGS * max(t.rounding for t in start))
    floor += rounding
    random = noise > 2 * rounding
    broken = (after > 2 * floor) | random
    results = [
        LayerResult(t.name, t.kind, list(t.outputs.shape[1:]), float(e), float(f), bool(b))
        for t, e, f, b in zip(start, after, floor, broken, strict=True)
    ]
    if not broken.any():
        return results, None, "none"
    i = int(np.argmax(broken))
    outside = before[i] > 2 * floor[i]
    return results, start[i].name, "random" if random[i] else "outside" if outside else "layer"


def _raise(
    table: np.ndarray, start: list[LayerTrace], then: list[LayerTrace] | None, of: Callable[[LayerTrace], Folded | None]
) -> None:
    """Raise entries of the table to the misfits of layers that both have."""
    for i, (a, b) in enumerate(zip(map(of, start), map(of, then or []), strict=False)):
        if a is not None and b is not None:
            table[i] = np.maximum(table[i], misfit(a, b))


def _traced(task: AuditTask, model: Model, x: InputLeaves) -> list[LayerTrace] | None:
    """Features of the layers for x; NetworkError, in one line, for an exception of the model's library."""
    began = time.perf_counter()
    try:
        traces = model.trace(x.own_tree(), folded)
    except Exception as error:
        failure = model.failed(error, x.tree())
        if failure is error:
            raise
        raise NetworkError(str(failure)) from error
    if traces is not None:
        task.clock.add(x.n, time.perf_counter() - began)
    return traces


@dataclass(frozen=True, eq=False)
class Folded:
    """One layer's features of n inputs."""

    shape: tuple[int, ...]
    dtype: np.dtype
    gram: Float[np.ndarray, "n n"]

    @property
    def factor(self) -> Float[np.ndarray, "n n"]:
        """L with L Lᵀ = K."""
        values, vectors = np.linalg.eigh(self.gram)
        values = np.where(values > _VANISHES * len(values) * values[-1], values, 0.0)
        return vectors * np.sqrt(values)


def folded(features: Any) -> Folded:
    """The array's Gram matrix H Hᵀ in double precision, block by block; complex features are pairs of real ones."""
    a = np.asarray(features)
    flat = a.reshape(len(a), -1)
    if a.dtype.kind == "c":
        flat = np.concatenate([flat.real, flat.imag], axis=1)
    gram = np.zeros((len(flat), len(flat)))
    for at in range(0, flat.shape[1], _BLOCK):
        block = np.asarray(flat[:, at : at + _BLOCK], np.float64)
        gram += block @ block.T
    return Folded(a.shape, flat.dtype, gram)


def misfit(a: Folded, b: Folded) -> float:
    """min over orthogonal Q of ‖B − A Q‖/‖A‖, for features A and B of the same inputs."""
    if a.shape != b.shape:
        return float("inf")
    size, other = np.trace(a.gram), np.trace(b.gram)
    if size == 0:
        return 0.0 if other == 0 else float("inf")
    nuclear = float(np.linalg.svd(a.factor.T @ b.factor, compute_uv=False).sum())
    return float(np.sqrt(max(size + other - 2 * nuclear, 0.0) / size))
