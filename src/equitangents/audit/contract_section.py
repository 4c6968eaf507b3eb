"""What was audited, as a section of the report: the group, how inputs and outputs move, each output's errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.intervals import Resampler
from equitangents.audit.measure.judge import Judgement
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import Task
from equitangents.audit.report.sections import ContractSection, InputContract, Matching, OutputContract


def contract_section(task: Task, orbits: Orbits, judgement: Judgement) -> ContractSection:
    """What group moved which inputs and outputs, and each output's errors."""
    contract, group = task.contract, task.contract.group
    inputs = []
    for name, action, leaf in zip(task.x.names, contract.inputs, task.x.leaves, strict=True):
        a = np.asarray(leaf.value) if isinstance(leaf, Shared) else leaf
        said = "none" if action is None else action.name
        inputs.append(InputContract(name, list(a.shape), a.dtype.name, said, action is None or action.exact))
    outputs = [_output(task, orbits, judgement, o) for o in range(len(orbits.output_names))]
    return ContractSection(
        group=group.name,
        order=None if group.elements is None else len(group.elements),
        complete=task.complete,
        elements=len(task.elements),
        layout=contract.layout,
        inputs=inputs,
        outputs=outputs,
        law=not contract.not_a_group,
    )


def _output(task: Task, orbits: Orbits, judgement: Judgement, o: int) -> OutputContract:
    """One output's contract, errors and sizes, and the elements under which it fails."""
    scales, action = judgement.scales, orbits.actions[o]
    resampler = replace(task, complete=True).resampler(task.x.n)
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
        compared=None if action is None or action.compared is None else action.compared.words,
        matching=_matching(task, orbits.matched[o]) if o in orbits.matched else None,
        unit=scales.unit_of(o, judgement.headline.unit),
    )


def _matching(task: Task, matched: np.ndarray) -> Matching:
    """Matched IoU, missed and extra items with their intervals over inputs; (3, elements, inputs), nan where none."""
    found = []
    for table in matched:
        counted = np.isfinite(table)
        rows = counted.any(axis=0)
        values = np.where(counted, table, 0.0).sum(axis=0)[rows] / counted.sum(axis=0)[rows]
        of_these = Resampler(len(values), None, task.confidence, task.resamples, task.seed) if len(values) else None
        found.append(None if of_these is None else of_these.mean(values, bounds=(0.0, 1.0)))
    return Matching(*found)
