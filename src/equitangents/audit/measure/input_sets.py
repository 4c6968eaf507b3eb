"""Inputs off the data: noise with the data's mean and standard deviation, shuffled entries, and the user's sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.actions.unchecked import RelabelledIndices
from equitangents.audit.contract.kinds import LabelsAction
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import InputLeaves, Shared, as_inputs
from equitangents.audit.measure.floors import UNINFORMATIVE, measure_floors, resampling
from equitangents.audit.measure.judge import Measured, make_scales, of_inputs
from equitangents.audit.measure.orbits import Orbits, measure_orbits
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.report.numbers import MeanEstimate, standing
from equitangents.audit.report.sections import HOLDING, SetKind, SetResult
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.metrics.measure import ratio

ROWS = 128
_FLOOR_ROWS = 16


def off_data_sets(task: AuditTask, without: Callable[[str, str], None]) -> list[tuple[str, SetKind, InputLeaves]]:
    """The sets of `off_data`: noise and shuffled data (True), the sets of a mapping, or none (False).

    `without` records a set that equals the data, with the reason.
    """
    off_data = task.settings.off_data
    if off_data is False or off_data is None:
        return []
    if isinstance(off_data, Mapping):
        return [(str(name), "other", _given_set(task, f"off_data[{name!r}]", x)) for name, x in off_data.items()]
    if off_data is not True:
        raise InvalidTypeError("off_data", type(off_data), "True, False or a mapping of sets", verb="is of type")
    x = task.x.subset(task.rows(ROWS))
    rng = np.random.default_rng(task.settings.seed)
    made: list[tuple[str, SetKind, InputLeaves]] = [
        ("noise", "noise", x.replaced(_each(task, x, _noise, rng))),
        ("shuffled", "shuffled", x.replaced(_each(task, x, _shuffled, rng))),
    ]
    same = [all(a is b or np.array_equal(a, b) for a, b in zip(x.leaves, s.leaves, strict=True)) for *_, s in made]
    for (name, *_), is_same in zip(made, same, strict=True):
        if is_same:
            without(f"set {name!r}", "it equals the data: names of nodes or classes, or equal numbers")
    project = task.contract.project  # masks hold off the data, too
    return [(name, kind, project(s)) for (name, kind, s), is_same in zip(made, same, strict=True) if not is_same]


def _given_set(task: AuditTask, name: str, x: Any) -> InputLeaves:
    """A set of the user's; raises an error that names it if the group cannot act on it as on the data."""
    inputs = as_inputs(x, name)
    if inputs.structure != task.x.structure:
        raise InvalidTypeError(name, inputs.structure, task.x.structure, "the structure of x", verb="has the structure")
    for leaf, action, a in zip(inputs.names, task.contract.inputs, inputs.leaves, strict=True):
        if action is not None and isinstance(a, Shared):
            raise InvalidArgumentError(leaf, "Shared", "one for every input, since the group moves it")
        if action is not None:
            action.check(leaf, a)
    return task.contract.project(inputs)


def training_set(task: AuditTask) -> tuple[InputLeaves, np.ndarray]:
    """The inputs and labels of `train`; raises unless the group acts on them and the model has their classes."""
    x, y = task.settings.train or ((), ())
    inputs, labels, classes = _given_set(task, "train", x), np.asarray(y), task.model.classes
    if labels.shape[:1] != (inputs.n,):
        raise ShapeError(
            "train", labels.shape, (inputs.n, ...), "a label or value for each input", verb="has y of shape"
        )
    if classes is not None and not np.array_equal(np.unique(labels), classes):
        expected = tuple(classes.tolist())
        raise InvalidArgumentError(
            "train", np.unique(labels).tolist(), expected, "as the model", verb="has the classes"
        )
    return inputs, labels


def measure_set(m: Measured, given: tuple[str, SetKind, InputLeaves]) -> SetResult:
    """The error on one set, with its own resampling floor, and rounding and noise as on the data.

    If the error is small but above this floor, and the model holds on its data, rounding on the set is measured.
    """
    task, (name, kind, x), unit = m.task, given, m.judgement.headline.unit
    rms = lambda a: np.sqrt(np.mean(a**2, axis=1))
    always = ratio(rms(m.floors.always), rms(m.orbits.separate_sizes[:, m.floors.rows]))
    orbits = measure_orbits(task, x)
    rows = np.arange(min(x.n, _FLOOR_ROWS))
    part = x.subset(rows)
    resampled = resampling(task, part, task.evaluate(part), orbits.actions)
    scales = make_scales(orbits, None, task.settings)
    sizes = orbits.separate_sizes[:, rows]
    fixed = np.where(sizes > 0, always[:, None], 0.0) * sizes
    floor = float(scales.largest(unit, resampled + fixed[:, None], rows).mean())
    error = task.resampler(x.n).mean(scales.largest(unit, orbits.separate))
    result = set_result(task, name, kind, orbits, error, floor)
    if not (result.above and m.verdict in HOLDING and error.mean <= UNINFORMATIVE):
        return result
    own = measure_floors(replace(task, x=x), orbits.actions, _FLOOR_ROWS)
    floor = max(floor, float(of_inputs(scales, unit, own)[scales.judged].max(axis=0).mean()))
    return set_result(task, name, kind, orbits, error, floor)


def set_result(
    task: AuditTask, name: str, kind: SetKind, orbits: Orbits, error: MeanEstimate, floor: float
) -> SetResult:
    """Error and noise floor of a set in the headline's unit, and whether it is above the floor and the tolerance."""
    above = floor <= UNINFORMATIVE and standing(error, floor, task.settings.tolerance) == "above"
    return SetResult(name, kind, orbits.errors.shape[1], error, floor, above)


def _each(task: AuditTask, x: InputLeaves, change: Any, rng: np.random.Generator) -> list[Any]:
    """Change the inputs that the group moves; other inputs, masks, and numbers that are names stay."""
    pairs = zip(task.contract.inputs, x.leaves, strict=True)
    return [a if action is None or _are_names(action, a) else change(a, rng) for action, a in pairs]


def _are_names(action: LeafAction, a: np.ndarray) -> bool:
    """Whether numbers name nodes or classes, which have no mean."""
    kind = action.action
    return isinstance(kind, RelabelledIndices) or (isinstance(kind, LabelsAction) and a.dtype.kind == "i")


def _noise(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if a.dtype.kind == "c":
        return (_noise(a.real, rng) + 1j * _noise(a.imag, rng)).astype(a.dtype)
    if a.dtype.kind == "b":
        return rng.random(a.shape) < a.mean()
    drawn = float(a.mean()) + float(a.std()) * rng.standard_normal(a.shape)
    if a.dtype.kind in "iu":  # within the range of the data, as models may know no other numbers
        drawn = np.clip(np.rint(drawn), a.min(), a.max())
    return drawn.astype(a.dtype)


def _shuffled(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permuted(a.reshape(len(a), -1), axis=1).reshape(a.shape)
