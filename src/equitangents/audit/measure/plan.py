"""What an audit will cost: how many inputs the model will be given, about, and how many of them go into a batch.

A batch has as many inputs as can be held beside the model: their activations take at most as much as the model's
weights do, or 64 MiB if that is more, so that an audit needs less than twice what the model does. Of models whose
activations are not known the inputs may take 64 MiB.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.audit.adapters.footprints import Footprint
from equitangents.audit.measure import floors, input_sets
from equitangents.audit.measure.task import Task

logger = logging.getLogger("equitangents.audit")

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


LEAST = 2**26
"""Bytes that the activations of a batch may take, however small the model is."""
_DOUBLE = 8


def planned(task: Task) -> Task:
    """The task with batches of the planned size, and what the model holds."""
    found = _footprint(task)
    if found is None:
        return task
    row = sum(_DOUBLE * a[0].size for a in task.x.batches)  # moved inputs
    size = max(LEAST, found.weights) // max(found.activations + row, 1)
    return replace(task, batch_size=int(np.clip(size, 1, task.batch_size)), footprint=found)


def _footprint(task: Task) -> Footprint | None:
    """What the model holds; None where it does not tell, or does not take one input alone."""
    if task.model.fixed_batch is not None or task.x.n == 1:
        return None
    began = time.perf_counter()
    try:
        found = task.model.footprint(task.x.subset(np.arange(1)).tree())
    except Exception as error:  # of foreign models, which may not take one input: the first batch tells what is wrong
        logger.info("audit: batches are not planned by the activations: %s", error)
        return None
    if found is not None and found.evaluated:
        with task.clock.during("planning batches"):
            task.clock.add(found.evaluated, time.perf_counter() - began)
    return found
