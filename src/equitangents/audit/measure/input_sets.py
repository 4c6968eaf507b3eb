"""Inputs beside the data: noise of the data's mean and spread, the data with their entries shuffled, other sets.

And curves of invariance over the strength of changes that form no group: ‖f(T_s x) − f(x)‖ at every strength.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.audit.contract.changes import Changes, changes, without_motion
from equitangents.audit.contract.layouts import Stated
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.measure.clock import Record
from equitangents.audit.measure.floors import FACTOR, Floors, measure_floors, resampling
from equitangents.audit.measure.judge import Judgement, judge
from equitangents.audit.measure.orbits import Orbits, measure_orbits, relative_std
from equitangents.audit.measure.scales import make_scales
from equitangents.audit.measure.task import Task
from equitangents.audit.report.numbers import Estimate, Unit
from equitangents.audit.report.sections import SetResult, StrengthResult, TransformResult
from equitangents.audit.report.words import curve_said
from equitangents.errors import InvalidTypeError
from equitangents.metrics.measure import bootstrap_interval

ROWS = 128
_FLOOR_ROWS = 16
SetKind = Literal["data", "noise", "shuffled", "other"]


def off_data_sets(task: Task, off_data: Any) -> list[tuple[str, SetKind, Inputs]]:
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
    task: Task, name: str, kind: SetKind, x: Inputs, always: Float[np.ndarray, " outputs"], unit: Unit
) -> SetResult:
    """The error on one set, with its own resampling floor; rounding and noise relative to outputs are `always`."""
    orbits = measure_orbits(task, x)
    rows = np.arange(min(x.n, _FLOOR_ROWS))
    part = x.subset(rows)
    round_trip, reference = resampling(task, part, task.evaluate(part), orbits.actions)
    resampled = np.fmax(np.nan_to_num(round_trip), np.nan_to_num(reference))
    scales = make_scales(orbits, None, task.judging)
    judged = scales.judged
    sizes = orbits.separate_sizes[:, rows]
    fixed = np.where(sizes > 0, always[:, None], 0.0) * sizes
    found = []
    for one in ("norm", unit):
        errors = np.max(scales.relative(one, orbits.separate)[judged], axis=0)
        floor = scales.relative(one, resampled + fixed[:, None], rows)[judged].max(axis=0)
        found.append((task.resampler(x.n).mean(errors), float(floor.mean())))
    (error, floor_by_norm), (judged_error, judged_floor) = found
    return set_result(task, name, kind, orbits, error, floor_by_norm, judged_error, judged_floor)


def set_result(
    task: Task,
    name: str,
    kind: SetKind,
    orbits: Orbits,
    error: Estimate,
    floor: float,
    judged: Estimate,
    judged_floor: float,
) -> SetResult:
    """A set's numbers; whether it is at the floor is decided in the headline's unit."""
    return SetResult(
        name=name,
        kind=kind,
        inputs=orbits.errors.shape[1],
        error=error,
        floor=floor,
        at_floor=judged.mean <= FACTOR * judged_floor,
        same_predictions=same_predictions(task, orbits),
        relative_std=task.resampler(len(orbits.kept)).mean(relative_std(orbits.signals)),
        judged=judged,
        judged_floor=judged_floor,
    )


def same_predictions(task: Task, orbits: Orbits) -> Estimate | None:
    """Share of the elements but the identity that keep the predicted class, with its interval; None without classes."""
    same = orbits.same_class
    return None if same is None else task.resampler(len(orbits.kept)).mean(same.mean(axis=0), bounds=(0.0, 1.0))


def _each(task: Task, x: Inputs, change: Any, rng: np.random.Generator) -> list[Any]:
    """Inputs that the group moves are changed; the others, masks and types, stay."""
    pairs = zip(task.contract.inputs, x.leaves, strict=True)
    return [a if action is None or a.dtype.kind not in "fc" else change(a, rng) for action, a in pairs]


def _noise(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if a.dtype.kind == "c":
        return (_noise(a.real, rng) + 1j * _noise(a.imag, rng)).astype(a.dtype)
    return (float(a.mean()) + float(a.std()) * rng.standard_normal(a.shape)).astype(a.dtype)


def _shuffled(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permuted(a.reshape(len(a), -1), axis=1).reshape(a.shape)


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
