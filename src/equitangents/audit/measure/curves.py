"""Curves of invariance over the strength of transforms: ‖f(T_s x) − f(x)‖ at every strength, with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.audit.contract.changes import Changes, changes, without_motion
from equitangents.audit.contract.leaf_actions import Stated
from equitangents.audit.measure.clock import Record
from equitangents.audit.measure.floors import Floors, measure_floors
from equitangents.audit.measure.judge import Judgement, judge
from equitangents.audit.measure.orbits import Orbits, measure_orbits
from equitangents.audit.measure.task import Task
from equitangents.audit.report.sections import Estimate, StrengthResult, TransformResult
from equitangents.audit.report.words import curve_said
from equitangents.metrics.measure import bootstrap_interval


def transform_curves(task: Task, given: Any, stated: Stated) -> list[TransformResult]:
    """The curves of transforms that are looked at beside a group."""
    contract = changes(given, task.x, task.contract.layout, stated, task.contract.mask)
    beside = replace(
        task,
        contract=contract,  # type: ignore[arg-type]
        elements=list(contract.group.elements),
        complete=True,
        output_action=without_motion(task.output_action),
        record=Record(),
    )
    orbits = measure_orbits(beside)
    floors = measure_floors(beside, orbits.actions)
    return curves(beside, contract, orbits, floors, judge(beside, orbits, floors))


def curves(
    task: Task, contract: Changes, orbits: Orbits, floors: Floors, judgement: Judgement
) -> list[TransformResult]:
    """One curve a transform, of errors that are measured already."""
    same = orbits.same_class
    found = []
    for name, transform in contract.transforms.items():
        points = [
            StrengthResult(
                strength=s,
                error=judgement.elements[k].estimate,
                floor=float(judgement.element_floors[k]),
                at_floor=bool(judgement.at_floor[:, k].all()),
                above=bool(judgement.above[:, k].any()),
                same_predictions=None if same is None else _share(task, same[k]),
            )
            for k, (of, s) in enumerate(task.elements)
            if of == name
        ]
        if not points:  # of an audit that was stopped before them
            continue
        headline = judgement.headline
        said = curve_said(name, points, headline.unit, headline.tolerance)
        found.append(TransformResult(name, headline.unit, transform.still, points, said))
    return found


def _share(task: Task, same: np.ndarray) -> Estimate:
    values = same.astype(np.float64)
    low, high = bootstrap_interval(
        values, confidence=task.confidence, resamples=task.resamples, seed=task.seed, bounds=(0.0, 1.0)
    )
    return Estimate(float(values.mean()), low, high)
