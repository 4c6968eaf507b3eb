"""Inputs to look at: the one with the largest error and a typical one, each with its orbit and the answers along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from equitangents._types import Element, Tree
from equitangents.audit.adapters.model import as_real
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.task import AuditTask, flattened
from equitangents.audit.report.sections import OrbitPoint, Witness

_POINTS = 24
_SIDE = 48  # pixels that are shown along an image's longer side
_NUMBERS = 3 * _SIDE**2
_OUTPUTS = 64


def witnesses(m: Measured) -> list[Witness]:
    """The worst and a typical pair of input and element."""
    task, orbits = m.task, m.orbits
    errors = m.judgement.scales.largest(m.judgement.headline.unit, orbits.separate)
    worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
    middle = np.quantile(errors, 0.5, method="inverted_cdf")
    typical = np.unravel_index(int(np.argmin(np.abs(errors - middle))), errors.shape)
    return [
        _witness(task, errors, "worst", int(worst[0]), int(worst[1])),
        _witness(task, errors, "typical", int(typical[0]), int(typical[1])),
    ]


def _witness(task: AuditTask, errors: np.ndarray, kind: Literal["worst", "typical"], k: int, i: int) -> Witness:
    contract = task.contract
    x, E = task.x.subset(np.array([i])), len(task.elements)
    shown = sorted({*np.linspace(0, E - 1, min(E, _POINTS)).astype(int).tolist(), k})
    moved = [task.contract.move(task.elements[j], x.leaves) for j in shown]
    y, *along = _outputs(task, i, shown, x, moved)
    points = [_point(task, contract.group.identity, x.leaves, flattened(y), 0.0)]
    for j, leaves, output in zip(shown, moved, along, strict=True):
        error = float(errors[j, i])
        points.append(_point(task, task.elements[j], leaves, flattened(output), error))
    images = next((a.layout for a in task.contract.inputs if a is not None), None)
    g = task.elements[k]
    return Witness(
        kind=kind,
        index=task.row(i),
        label=contract.label(g),
        parameter=contract.group.parameter(g),
        error=float(errors[k, i]),
        image_layout=images,
        orbit=points,
    )


def _outputs(
    task: AuditTask, i: int, shown: list[int], x: Inputs, moved: list[list[Any]]
) -> list[tuple[np.ndarray, ...]]:
    """What the model answered for one input and its moved copies: as the pass over the data had it, or in one batch."""
    kept = [task.record.of_row(task.step, len(task.elements), i, j) for j in (None, *shown)]
    known = [y.leaves for y in kept if y is not None]
    if len(known) == len(kept):
        return known
    if task.contract.not_a_group:  # changed inputs may have other shapes
        return [task.evaluate(x.replaced(leaves)).leaves for leaves in (x.leaves, *moved)]
    columns = zip(x.leaves, *moved, strict=True)
    leaves = [a[0] if isinstance(a[0], Shared) else np.concatenate(a) for a in columns]
    answer = task.evaluate(x.replaced(leaves)).leaves
    return [tuple(y[k : k + 1] for y in answer) for k in range(len(moved) + 1)]


def _point(task: AuditTask, g: Element, leaves: Sequence[Tree], y: np.ndarray, error: float) -> OrbitPoint:
    contract = task.contract
    pictures = {}
    for name, action, leaf in zip(task.x.names, task.contract.inputs, leaves, strict=True):
        if action is not None:
            picture = _small(np.asarray(leaf[0]), action)
            if picture.size <= _NUMBERS:
                pictures[name] = _rounded(picture)
    prediction = _rounded(y[0]) if y.shape[1] <= _OUTPUTS else None
    return OrbitPoint(
        label=contract.label(g),
        parameter=contract.group.parameter(g),
        angle=contract.angle(g),
        inputs=pictures,
        prediction=prediction,
        error=error,
    )


def _small(picture: np.ndarray, action: LeafAction) -> np.ndarray:
    """Large images as means over blocks of pixels."""
    if action.layout is None or picture.ndim != 3:
        return picture
    last = picture if action.layout == "channels_last" else np.moveaxis(picture, 0, -1)
    H, W, C = last.shape
    block = -(-max(H, W) // _SIDE)
    if block > 1:
        h, w = H // block, W // block
        last = last[: h * block, : w * block].reshape(h, block, w, block, C).mean(axis=(1, 3))
    return last if action.layout == "channels_last" else np.moveaxis(last, -1, 0)


def _rounded(a: np.ndarray) -> Any:
    """Nested lists of numbers with five digits."""
    a = as_real(a) if a.dtype.kind == "c" else a
    if a.dtype.kind != "f":
        return a.tolist()
    flat = [float(f"{v:.5g}") for v in a.ravel().tolist()]
    return np.array(flat, dtype=object).reshape(a.shape).tolist()
