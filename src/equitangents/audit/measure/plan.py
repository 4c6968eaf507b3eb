"""How many inputs a model will be given in an audit, about: for saying how long the rest takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equitangents.audit.measure import floors, input_sets
from equitangents.audit.measure.task import Task

_ENSEMBLE = 48 * 17
_CHECKPOINT_ROWS = 256


def planned_inputs(task: Task, off_data: Any, checkpoints: Mapping[str, Any], strengths: int = 0) -> int:
    """Inputs of the pass over the data, of the floors, the other sets, checkpoints, Lie derivatives and members.

    `strengths`: of all transforms that are looked at beside the group.
    """
    n, along = task.x.n, len(task.elements) + 1
    resampled = 0 if task.contract.exact else 2 * len(task.elements)
    rows = min(n, input_sets.ROWS)
    sets = 2 * [rows] if off_data is True else [rows] * len(off_data if isinstance(off_data, Mapping) else ())
    total = n * along + min(n, floors.ROWS) * (2 + resampled)
    total += sum(m * along + min(m, 16) * (1 + resampled) for m in sets)
    total += len(checkpoints) * min(n, _CHECKPOINT_ROWS) * along
    total += len(task.contract.group.flows) * 3 * min(n, floors.ROWS)
    total += (n * (strengths + 1) + 2 * min(n, floors.ROWS)) if strengths else 0
    members = None if task.quick else task.model.members()
    return int(total + (0 if members is None else len(members) * _ENSEMBLE))
