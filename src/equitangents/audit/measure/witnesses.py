"""Inputs to look at: the one with the largest error and a typical one, each with its orbit and the answers along it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from equitangents.audit.adapters.model import as_real
from equitangents.audit.contract.leaf_actions import LeafAction
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
    contract, E, g = task.contract, len(task.elements), task.elements[k]
    shown = sorted({*np.linspace(0, E - 1, min(E, _POINTS)).astype(int).tolist(), k})
    points = [_point(task, i, None, 0.0), *(_point(task, i, j, float(errors[j, i])) for j in shown)]
    return Witness(
        kind=kind,
        index=task.row(i),
        label=contract.label(g),
        parameter=contract.group.parameter(g),
        error=float(errors[k, i]),
        image_layout=next((a.layout for a in contract.inputs if a is not None), None),
        orbit=points,
    )


def _point(task: AuditTask, i: int, k: int | None, error: float) -> OrbitPoint:
    """Input i moved by element k, or as it is, and what the model answered, in the pass over the data or now."""
    contract, x = task.contract, task.x.subset(np.array([i]))
    g = contract.group.identity if k is None else task.elements[k]
    x = x if k is None else contract.move(g, x)
    y = flattened((task.record.of_row(task.step, len(task.elements), i, k) or task.evaluate(x)).leaves)
    pictures = {}
    for name, action, leaf in zip(x.names, contract.inputs, x.leaves, strict=True):
        if action is not None:
            picture = _small(np.asarray(leaf[0]), action)
            if picture.size <= _NUMBERS:
                pictures[name] = _rounded(picture)
    return OrbitPoint(
        label=contract.label(g),
        parameter=contract.group.parameter(g),
        angle=contract.angle(g),
        inputs=pictures,
        prediction=_rounded(y[0]) if y.shape[1] <= _OUTPUTS else None,
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
