"""Inputs off the data: noise of the data's mean and spread, the data with their entries shuffled, other sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import Inputs, Shared, as_inputs
from equitangents.audit.measure.floors import resampling
from equitangents.audit.measure.orbits import Orbits, measure_orbits, relative_std
from equitangents.audit.measure.task import Task
from equitangents.audit.report.sections import SetResult
from equitangents.errors import InvalidTypeError

ROWS = 128
_FLOOR_ROWS = 16
Kind = Literal["data", "noise", "shuffled", "other"]


def off_data_sets(task: Task, off_data: Any) -> list[tuple[str, Kind, Inputs]]:
    """What `off_data` asks for: True the noise and the shuffled data, a mapping other sets by name, False nothing."""
    if off_data is False or off_data is None:
        return []
    if isinstance(off_data, Mapping):
        return [(str(name), "other", as_inputs(x)) for name, x in off_data.items()]
    if off_data is not True:
        raise InvalidTypeError(f"off_data is {type(off_data).__name__}; expected True, False or a mapping of sets")
    x = task.x.subset(task.rows(ROWS))
    rng = np.random.default_rng(task.seed)
    return [("noise", "noise", x.replaced(_each(task, x, _noise, rng))),
            ("shuffled", "shuffled", x.replaced(_each(task, x, _shuffled, rng)))]  # fmt: skip


def measure_set(
    task: Task, name: str, kind: Kind, x: Inputs, actions: list[LeafAction | None], other_floors: float
) -> SetResult:
    """The error on one set, with its own resampling floor on top of `other_floors`."""
    orbits = measure_orbits(task, x)
    part = x.subset(np.arange(min(x.n, _FLOOR_ROWS)))
    round_trip, reference = resampling(task, part, task.evaluate(part), actions)
    resampled = np.fmax(np.nan_to_num(round_trip), np.nan_to_num(reference))
    return set_result(task, name, kind, orbits, resampled.mean(axis=1) + other_floors)


def set_result(task: Task, name: str, kind: Kind, orbits: Orbits, floors: np.ndarray, factor: float = 2.0) -> SetResult:
    """A set's numbers from its orbits and the floors of the elements."""
    resampler = task.resampler(orbits.errors.shape[1])
    error = resampler.mean(orbits.errors)
    floor = float(floors.mean())
    return SetResult(
        name=name,
        kind=kind,
        inputs=orbits.errors.shape[1],
        error=error,
        floor=floor,
        at_floor=error.mean <= factor * floor,
        same_predictions=same_predictions(task, orbits),
        relative_std=task.resampler(len(orbits.kept)).mean(relative_std(orbits.signals)),
    )


def same_predictions(task: Task, orbits: Orbits) -> Any:
    """Orbit same predictions as a share, with its interval; None without class scores."""
    scores = orbits.scores
    if scores is None:
        return None
    same = scores.argmax(axis=2) == scores[0].argmax(axis=1)
    return task.resampler(len(orbits.kept)).mean(same.mean(axis=0), bounds=(0.0, 1.0))


def _each(task: Task, x: Inputs, change: Any, rng: np.random.Generator) -> list[Any]:
    """Inputs that the group moves are changed; the others, masks and types, stay."""
    pairs = zip(task.contract.inputs, x.leaves, strict=True)
    return [
        a if action is None or isinstance(a, Shared) or a.dtype.kind != "f" else change(a, rng) for action, a in pairs
    ]


def _noise(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (float(a.mean()) + float(a.std()) * rng.standard_normal(a.shape)).astype(a.dtype)


def _shuffled(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permuted(a.reshape(len(a), -1), axis=1).reshape(a.shape)
