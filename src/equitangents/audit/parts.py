"""The report of an audit: its parts other than the pass over the data, and all sections.

A part returns its section, or the reason why there is none. The report lists missing parts, such as those on which the
model failed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from equitangents._version import __version__
from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.input_sets import measure_set, set_result
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.layers import layer_errors
from equitangents.audit.measure.orbits import task_error
from equitangents.audit.measure.remedies import averaged, remedies
from equitangents.audit.measure.task import AuditTask, Clock
from equitangents.audit.measure.witness import worst_input
from equitangents.audit.report.result import FORMAT, AuditReport, cited
from equitangents.audit.report.sections import (
    HOLDING,
    ContractSection,
    ElementResult,
    InputContract,
    Matching,
    MissingSection,
    ModelSection,
    OrbitSection,
    OutputContract,
    Reason,
    RelativeSection,
    SetResult,
    Timing,
    Verdict,
)
from equitangents.errors import NotFiniteError

logger = logging.getLogger("equitangents.audit")

T = TypeVar("T")


def measure_parts(m: Measured, notes: Notes) -> dict[str, Any]:
    """All sections by name; missing parts are noted."""
    task, parts = m.task, dict[str, Any](ensemble=None, layers=None, remedies=[], witness=None)
    part = lambda name, measure: notes.measured(task.clock, name, partial(measure, m), parts[name])
    quick = task.settings.quick
    if not quick:
        parts["ensemble"] = part("ensemble", ensemble_law)
    if task.settings.layers is False:
        notes.without("layers", "layers=False")
    else:
        parts["layers"] = part("layers", layer_errors)
    if quick:
        notes.without("ensemble, remedies and the worst input", "effort='quick'")
        return parts
    group = not task.contract.not_a_group
    if group and m.judgement.undefined:
        notes.without("remedies", "the model gives NaN or infinite values for some moved inputs")
    elif group:
        for one in part("remedies", remedies):
            if isinstance(one, MissingSection):
                notes.without(one.section, one.reason)
            else:
                parts["remedies"].append(one)
    parts["witness"] = part("witness", worst_input)
    return parts


class Notes(list[MissingSection]):
    """Parts of an audit that are missing, and why."""

    def without(self, name: str, why: str) -> None:
        """Note that a part is missing."""
        self.append(MissingSection(name, why))
        logger.info("audit: no %s: %s", name, why)

    def measured(self, clock: Clock, name: str, measure: Callable[[], T], otherwise: Any = None) -> T | Any:
        """The result of `measure`; if it is a reason (text), or the model fails, note that and return `otherwise`."""
        try:
            result: Any = measure()
        except Exception as error:
            if not (isinstance(error, NotFiniteError) or error is clock.failed):
                raise
            result = f"the model failed on it: {type(error).__name__}: {error}"
        if not isinstance(result, str):
            return result
        self.without(name, result)
        return otherwise


_LIBRARIES = {"torch": "torch", "onnx": "onnxruntime", "scikit-learn": "scikit-learn"}


def assemble(m: Measured, notes: Notes, began: float) -> AuditReport:
    """The complete report."""
    orbits, floors, judgement, task = m.orbits, m.floors, m.judgement, m.task
    sets = [notes.measured(task.clock, f"set {s[0]!r}", partial(measure_set, m, s)) for s in m.sets]
    parts = measure_parts(m, notes)
    headline, clock = judgement.headline, task.clock
    sets = [
        set_result(task, "data", "data", orbits, headline.error.estimate, headline.floor),
        *(s for s in sets if s is not None),
    ]
    verdict, reason = off_data(m, sets)
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
        error=task.resampler(task.x.n).distribution(orbits.errors),
        floor=floors.of_elements.mean(),
        elements=_elements(m),
        float_floor=floors.float_floor,
        orbit=OrbitSection(
            same_predictions=m.same,
            answers=None if orbits.scores is None else len(np.unique(orbits.scores.argmax(axis=2))),
        ),
        relative=_relative(m),
        sets=sets,
        missing=list(notes),
        settings={**vars(task.settings.bootstrap), "batch_size": task.batch_size, "inputs": task.x.n},
        versions=versions("jax", "numpy", "scipy", *filter(None, [_LIBRARIES.get(task.model.kind)])),
        timing=Timing(time.perf_counter() - began, clock.seconds, clock.evaluations, clock.batches),
        citations=[],
        errors=orbits.errors,
        headline=headline,
        rules=m.sought or [],
        averaged=averaged(m),
        counterexample=judgement.counterexample,
        undefined=judgement.undefined,
        unmoved=task.unmoved,
        **parts,
    )
    return replace(report, citations=cited(report))


def off_data(m: Measured, sets: list[SetResult]) -> tuple[Verdict, Reason]:
    """Verdict and reason with the sets off the data, on which a model that holds on its data may fail."""
    if m.verdict in HOLDING and any(s.above for s in sets[1:]):
        return "equivariant on its data", "fails off the data"
    return m.verdict, m.reason


def _elements(m: Measured) -> list[ElementResult]:
    task, contract, judgement = m.task, m.task.contract, m.judgement
    resampler = task.over_inputs(task.x.n)  # of one element, over inputs
    same, floors = m.orbits.same_class, m.floors.of_elements
    return [
        ElementResult(
            label=contract.label(g),
            parameter=contract.group.parameter(g),
            angle=contract.angle(g),
            exact=contract.inputs.moves_exactly(g),
            error=resampler.distribution(m.orbits.errors[k]),
            floor=float(floors[k]),
            at_floor=bool(judgement.at_floor[:, k].all()),
            same_prediction=None if same is None else float(same[k].mean()),
            judged=judgement.elements[k],
            judged_floor=float(judgement.element_floors[k]),
            above=bool(judgement.above[:, k].any()),
        )
        for k, g in enumerate(task.elements)
    ]


def _contract(m: Measured) -> ContractSection:
    """The group, its actions on inputs and outputs, and the errors of each output."""
    task, contract = m.task, m.task.contract
    elements, inputs = contract.group.elements, []
    for name, action, leaf in zip(task.x.names, contract.inputs, task.x.leaves, strict=True):
        a = np.asarray(leaf.value) if isinstance(leaf, Shared) else leaf
        name_of_action = "none" if action is None else action.name
        inputs.append(
            InputContract(name, list(a.shape), a.dtype.name, name_of_action, action is None or action.action.exact)
        )
    outputs = [_output(m, o) for o in range(len(m.orbits.output_names))]
    return ContractSection(
        group=contract.group.name,
        order=None if elements is None else len(elements),
        complete=task.complete,
        elements=len(task.elements),
        layout=contract.layout,
        inputs=inputs,
        outputs=outputs,
        law=not contract.not_a_group,
    )


def _output(m: Measured, o: int) -> OutputContract:
    """Contract, errors and sizes of one output, and the elements under which it fails."""
    task, orbits, judgement = m.task, m.orbits, m.judgement
    scales, action, compared = judgement.scales, orbits.actions[o], orbits.actions.comparisons[o]
    resampler = task.over_inputs(task.x.n)
    shape = list(orbits.output_shapes[o])
    return OutputContract(
        name=orbits.output_names[o],
        shape=[] if orbits.class_numbers[o] else shape[:-1] if orbits.complex_pairs[o] else shape,
        action="invariant" if action is None else action.name,
        error=resampler.mean(scales.relative("norm", orbits.separate, own=False)[o].mean(axis=0)),
        judged=judgement.outputs[o],
        floor=float(judgement.output_element_floors[o].mean()),
        rms=float(np.sqrt(np.mean(orbits.separate_sizes[o] ** 2))),
        scale=float(scales.given[o]) if np.isfinite(scales.given[o]) else None,
        vanishes=bool(scales.vanishing[o]),
        fails_under=[task.contract.label(task.elements[k]) for k in np.flatnonzero(judgement.above[o])],
        compared=None if compared is None else compared.label,
        matching=_matching(task, orbits.matched[o]) if o in orbits.matched else None,
        unit=scales.unit_of(o, judgement.headline.unit),
    )


def _matching(task: AuditTask, matched: np.ndarray) -> Matching:
    """Matched IoU, missed and extra items with intervals over inputs, from (3, elements, inputs) with nan for none."""
    means = []
    for table in matched:
        counted = np.isfinite(table)
        rows = counted.any(axis=0)
        values = np.where(counted, table, 0.0).sum(axis=0)[rows] / counted.sum(axis=0)[rows]
        of_these = task.over_inputs(len(values)) if len(values) else None
        means.append(None if of_these is None else of_these.mean(values, bounds=(0.0, 1.0)))
    return Matching(*means)


def _relative(m: Measured) -> RelativeSection:
    """Errors in other units; the task's error on transformed inputs is that of the pulled-back signal."""
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
        error_by_spread=m.judgement.by_deviation,
        floor_by_spread=m.judgement.deviation_floor,
    )


def versions(*libraries: str) -> dict[str, str]:
    """Versions of the libraries used; those not installed as packages are left out."""
    known = {"equitangents": __version__, "python": platform.python_version()}
    for library in libraries:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            known[library] = importlib.metadata.version(library)
    return known
