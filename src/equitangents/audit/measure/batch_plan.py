"""How many inputs go into a batch: as many as can be held beside the model.

The activations of a batch take at most as much as the model's weights do, or 64 MiB if that is more, so that an audit
needs less than twice what the model does. Of models whose activations are not known the inputs may take 64 MiB.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import numpy as np

from equitangents.audit.adapters.footprints import Footprint
from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.task import Task

logger = logging.getLogger("equitangents.audit")

LEAST = 2**26
"""Bytes that the activations of a batch may take, however small the model is."""
_DOUBLE = 8


def planned(task: Task) -> Task:
    """The task with batches of the planned size, and what the model holds."""
    found = _footprint(task)
    if found is None:
        return task
    row = sum(_DOUBLE * a[0].size for a in task.x.leaves if not isinstance(a, Shared))  # moved inputs
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
