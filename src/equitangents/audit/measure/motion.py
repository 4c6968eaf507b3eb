"""Which inputs the group moves at all: ρ(g)x compared with x, exactly and up to rounding.

An input that no element moves, a blank image or one that is symmetric itself, has an orbit of one point, on which every
function is invariant: it tells nothing of the model, and leaves the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from equitangents.audit.adapters.model import as_real
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.audit.measure.task import Task, batches
from equitangents.metrics.measure import norms

_ROUNDINGS = 8.0


def without_fixed_points(task: Task, y: np.ndarray | None) -> tuple[Task, np.ndarray | None]:
    """The task of the inputs that some element moves, and their labels; all of them if there are none."""
    moved = moved_rows(task)
    rows = np.flatnonzero(moved)
    if len(rows) == task.x.n:
        return task, y
    task = replace(task, unmoved=task.x.n - len(rows))
    if not len(rows):
        return task, y
    return replace(task, sample=task.x).of_rows(rows), None if y is None else y[rows]


def moved_rows(task: Task) -> Bool[np.ndarray, " N"]:
    """Which inputs some element moves. Elements that do not resample come first: mostly one of them tells."""
    elements = sorted(task.elements, key=lambda g: not task.contract.moves_exactly(g))
    found = np.zeros(task.x.n, bool)
    for rows in batches(task.x.n, task.step):
        left = rows
        for g in elements:
            part = task.x.subset(left)
            start = task.contract.start(part)
            found[left] = _apart(start, task.contract.move(g, part.leaves))
            left = left[~found[left]]
            if not len(left):
                break
    return found


def _apart(x: Inputs, moved: Sequence[Any]) -> Bool[np.ndarray, " n"]:
    """Which rows of some array differ by more than rounding of their size."""
    found = np.zeros(x.n, bool)
    for a, b in zip(x.leaves, moved, strict=True):
        if isinstance(a, Shared):
            continue
        if a.shape != np.shape(b):
            return np.ones(x.n, bool)
        if a.dtype.kind not in "fc":
            found |= (np.asarray(b) != a).reshape(len(a), -1).any(axis=1)
            continue
        limit = _ROUNDINGS * float(np.finfo(a.dtype).eps) * norms(as_real(a))
        found |= ~(norms(as_real(np.asarray(b) - a)) <= limit)
    return found
