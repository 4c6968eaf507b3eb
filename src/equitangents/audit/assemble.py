"""The report of an audit: every section of it, made of what was measured."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np

from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.input_sets import measure_set, set_result
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.orbits import task_error
from equitangents.audit.measure.remedies import averaged
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.parts import Notes, measure_parts
from equitangents.audit.report.forms import versions
from equitangents.audit.report.result import FORMAT, AuditReport, cited
from equitangents.audit.report.rows import beyond
from equitangents.audit.report.sections import (
    HOLDING,
    AuditSettings,
    ContractSection,
    ElementResult,
    InputContract,
    Matching,
    ModelSection,
    OrbitSection,
    OutputContract,
    Reason,
    RelativeSection,
    SetResult,
    Timing,
    Verdict,
)

_LIBRARIES = {"torch": "torch", "onnx": "onnxruntime", "scikit-learn": "scikit-learn"}


def assemble(m: Measured, notes: Notes, began: float) -> AuditReport:
    """The whole report, with the parts beside the pass over the data."""
    orbits, floors, judgement, task = m.orbits, m.floors, m.judgement, m.task
    with task.clock.during("other sets"):
        sets = [notes.measured(task.clock, f"set {s[0]!r}", partial(measure_set, m, s)) for s in m.sets]
    found = measure_parts(m, notes)
    headline, error, floor = (
        judgement.headline,
        task.resampler(task.x.n).spread(orbits.errors),
        floors.of_elements.mean(),
    )
    sets = [
        set_result(task, "data", "data", orbits, headline.error.estimate, headline.floor),
        *(s for s in sets if s is not None),
    ]
    rules = found.pop("rules")
    verdict, reason = off_data(m, sets)
    settings = task.settings
    asked = settings.off_data
    values = {
        "outputs": settings.outputs,
        "off_data": asked if isinstance(asked, bool) else sorted(map(str, asked or {})),
    }
    report = AuditReport(
        format=FORMAT,
        verdict=verdict,
        reason=reason,
        contract=_contract(m),
        model=ModelSection(
            name=task.model.name,
            kind=task.model.kind,
            dtype=orbits.dtype.name,
            device=task.model.device,
            deterministic=floors.deterministic,
            batch_independent=floors.batch_independent,
            noise=floors.noise,
        ),
        error=error,
        floor=floor,
        elements=_elements(m),
        float_floor=floors.float_floor,
        orbit=OrbitSection(
            same_predictions=m.same,
            answers=None if orbits.scores is None else len(np.unique(orbits.scores.argmax(axis=2))),
        ),
        relative=_relative(m),
        sets=sets,
        missing=list(notes),
        settings=AuditSettings(**vars(settings.bootstrap), batch_size=task.batch_size, inputs=task.x.n, values=values),
        versions=versions(
            "jax", "numpy", "scipy", *([_LIBRARIES[kind]] if (kind := task.model.kind) in _LIBRARIES else [])
        ),
        timing=Timing(
            time.perf_counter() - began,
            task.clock.seconds,
            task.clock.evaluations,
            task.clock.batches,
            dict(task.clock.parts),
        ),
        citations=[],
        errors=orbits.errors,
        floors=floors.table,
        parameters=task.elements,
        headline=headline,
        rules=rules if m.sought is None else m.sought,
        averaged=averaged(m),
        counterexample=judgement.counterexample,
        undefined=judgement.undefined,
        unmoved=task.unmoved,
        **found,
    )
    return replace(report, citations=cited(report))


def off_data(m: Measured, sets: list[SetResult]) -> tuple[Verdict, Reason]:
    """Verdict and reason on the data and off it: a model that fails there holds on its data alone."""
    if m.verdict in HOLDING and any(s.above for s in sets[1:]):
        return "equivariant on its data", "fails off the data"
    worse = m.verdict == "broken" and m.reason != "not finite" and beyond(m.verdict, m.judgement.headline, sets)
    return m.verdict, "worse off the data" if worse else m.reason


def _elements(m: Measured) -> list[ElementResult]:
    task, orbits, floors, judgement = m.task, m.orbits, m.floors, m.judgement
    contract = task.contract
    resampler = task.over_inputs(task.x.n)  # of one element, over inputs alone
    same = orbits.same_class
    of_elements = floors.of_elements
    results = []
    for k, g in enumerate(task.elements):
        errors = orbits.errors[k]
        floor = float(of_elements[k])
        results.append(
            ElementResult(
                label=contract.label(g),
                parameter=contract.group.parameter(g),
                angle=contract.angle(g),
                exact=task.contract.inputs.moves_exactly(g),
                error=resampler.spread(errors),
                floor=floor,
                at_floor=bool(judgement.at_floor[:, k].all()),
                same_prediction=None if same is None else float(same[k].mean()),
                judged=judgement.elements[k],
                judged_floor=float(judgement.element_floors[k]),
                above=bool(judgement.above[:, k].any()),
            )
        )
    return results


def _contract(m: Measured) -> ContractSection:
    """What group moved which inputs and outputs, and each output's errors."""
    task, contract = m.task, m.task.contract
    elements, inputs = contract.group.elements, []
    for name, action, leaf in zip(task.x.names, contract.inputs, task.x.leaves, strict=True):
        a = np.asarray(leaf.value) if isinstance(leaf, Shared) else leaf
        said = "none" if action is None else action.name
        inputs.append(InputContract(name, list(a.shape), a.dtype.name, said, action is None or action.action.exact))
    outputs = [_output(m, o) for o in range(len(m.orbits.output_names))]
    return ContractSection(
        group=contract.name,
        order=None if elements is None else len(elements),
        complete=task.complete,
        elements=len(task.elements),
        layout=contract.layout,
        inputs=inputs,
        outputs=outputs,
        law=not contract.not_a_group,
    )


def _output(m: Measured, o: int) -> OutputContract:
    """One output's contract, errors and sizes, and the elements under which it fails."""
    task, orbits, judgement = m.task, m.orbits, m.judgement
    scales, action, compared = judgement.scales, orbits.actions[o], orbits.actions.comparisons[o]
    resampler = task.over_inputs(task.x.n)
    known = lambda value: float(value) if np.isfinite(value) else None
    shape = list(orbits.output_shapes[o])
    return OutputContract(
        name=orbits.output_names[o],
        shape=[] if orbits.class_numbers[o] else shape[:-1] if orbits.complex_pairs[o] else shape,
        action="invariant" if action is None else action.name,
        error=resampler.mean(scales.relative("norm", orbits.separate, own=False)[o].mean(axis=0)),
        judged=judgement.outputs[o],
        floor=float(judgement.output_element_floors[o].mean()),
        rms=float(np.sqrt(np.mean(orbits.separate_sizes[o] ** 2))),
        spread=known(scales.spreads[o]),
        scale=known(scales.given[o]),
        vanishes=bool(scales.vanishing[o]),
        fails_under=[task.contract.label(task.elements[k]) for k in np.flatnonzero(judgement.above[o])],
        compared=None if compared is None else compared.words,
        matching=_matching(task, orbits.matched[o]) if o in orbits.matched else None,
        unit=scales.unit_of(o, judgement.headline.unit),
    )


def _matching(task: AuditTask, matched: np.ndarray) -> Matching:
    """Matched IoU, missed and extra items with their intervals over inputs; (3, elements, inputs), nan where none."""
    found = []
    for table in matched:
        counted = np.isfinite(table)
        rows = counted.any(axis=0)
        values = np.where(counted, table, 0.0).sum(axis=0)[rows] / counted.sum(axis=0)[rows]
        of_these = task.over_inputs(len(values)) if len(values) else None
        found.append(None if of_these is None else of_these.mean(values, bounds=(0.0, 1.0)))
    return Matching(*found)


def _relative(m: Measured) -> RelativeSection:
    """The task's error on transformed inputs is that of the pulled back signal."""
    orbits = m.orbits
    (error, name), *moved = (task_error(signal, orbits, m.y) for signal in orbits.signals)
    transformed = None
    if error is not None:
        each = np.array([e or 0.0 for e, _ in moved])
        transformed = float(each.mean() if name == "error rate" else np.sqrt(np.mean(each**2)))
    return RelativeSection(
        task=name,
        task_error=error,
        transformed_task_error=transformed,
        error_by_spread=m.judgement.by_spread,
        floor_by_spread=m.judgement.spread_floor,
    )
