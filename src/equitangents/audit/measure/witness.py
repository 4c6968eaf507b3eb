"""The input with the largest error: its orbit, and the outputs along it."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.audit.adapters.model import as_real
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import InputLeaves, Shared
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.task import flattened
from equitangents.audit.report.sections import AuditWitness, OrbitPoint

_POINTS = 24
_SIDE = 48  # pixels shown along the longer side of an image
_NUMBERS = 3 * _SIDE**2
_OUTPUTS = 64


def worst_input(m: Measured) -> AuditWitness:
    """The pair of input and element with the largest error, and the input's orbit."""
    task = m.task
    errors = m.judgement.scales.largest(m.judgement.headline.unit, m.orbits.separate)
    k, i = map(int, np.unravel_index(int(np.argmax(errors)), errors.shape))
    contract, E, g = task.contract, len(task.elements), task.elements[k]
    shown = sorted({*np.linspace(0, E - 1, min(E, _POINTS)).astype(int).tolist(), k})
    elements = [contract.group.identity, *(task.elements[j] for j in shown)]
    x = task.x.subset(np.array([i]))
    orbit = [x, *(contract.move(h, x) for h in elements[1:])]
    leaves = list(zip(x.leaves, *(one.leaves for one in orbit), strict=True))
    together = lambda: x.replaced([a if isinstance(a, Shared) else np.concatenate(copies) for a, *copies in leaves])
    parts = orbit if contract.not_a_group else [together()]  # transforms may change sizes
    predictions = np.concatenate([flattened(task.evaluate(part).leaves) for part in parts])
    return AuditWitness(
        index=task.row(i),
        label=contract.label(g),
        parameter=contract.group.parameter(g),
        error=float(errors[k, i]),
        image_layout=next((a.layout for a in contract.inputs if a is not None), None),
        orbit=[
            OrbitPoint(
                label=contract.label(h),
                inputs=_pictures(contract, one),
                prediction=_rounded(y) if len(y) <= _OUTPUTS else None,
                error=error,
            )
            for h, one, y, error in zip(elements, orbit, predictions, [0.0, *errors[shown, i].tolist()], strict=True)
        ],
    )


def _pictures(contract: Contract, x: InputLeaves) -> dict[str, Any]:
    """Arrays of one input that the group moves, by name; large ones are left out."""
    moved = zip(x.names, contract.inputs, x.leaves, strict=True)
    small = {name: _small(np.asarray(a[0]), action) for name, action, a in moved if action is not None}
    return {name: _rounded(picture) for name, picture in small.items() if picture.size <= _NUMBERS}


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
