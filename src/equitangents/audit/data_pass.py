"""The pass over the data: orbits, floors, judgement and verdict, from which every part of an audit starts.

Inputs that no element moves, and inputs and elements for which the model gives NaN, are left out, and the others are
measured once more. Of a pass that was stopped, what came until then is measured from the record of its outputs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equitangents.audit.measure.again import confirmed, is_open, settled
from equitangents.audit.measure.floors import ROWS, measure_floors, unmeasured_floors
from equitangents.audit.measure.input_sets import off_data_sets
from equitangents.audit.measure.judge import Measured, decide, judge, reason
from equitangents.audit.measure.orbits import Orbits, measure_orbits, misfit, same_predictions
from equitangents.audit.measure.task import AuditTask, Record
from equitangents.audit.parts import Bench
from equitangents.audit.report.part_sections import TASK
from equitangents.audit.report.sections import RuleResult, UndefinedPose
from equitangents.errors import NotFiniteError

_QUICK_ROWS = 16
_STOPPED_ROWS = 8  # for the floors of an audit that was stopped before them
_MOSTLY = 0.5  # an element under which more inputs than this share give NaN is left out, rather than the inputs


def measure_data(asked: AuditTask, y: np.ndarray | None, sought: list[RuleResult] | None, bench: Bench) -> Measured:
    """The pass over the data, its floors, and what follows from both."""
    sets = off_data_sets(asked, bench.without)
    with asked.clock.during("elements"):
        task, y, orbits, undefined = _passed(asked, y, bench)
    wrong = misfit(orbits, y)
    if wrong:
        bench.without(TASK, wrong)
        y = None
    rows = _STOPPED_ROWS if bench.stopped else _QUICK_ROWS if task.settings.quick else ROWS
    with task.clock.during("floors"):
        known = bench.attempted("floors", lambda: measure_floors(task, orbits.actions, rows), always=True)
    floors = unmeasured_floors(task, orbits.dtype, orbits.separate_sizes) if known is None else known
    judgement = replace(judge(task, orbits, floors), undefined=undefined)
    same = same_predictions(task, orbits)
    m = Measured(asked, task, y, sought, sets, orbits, floors, judgement, "undecided", "unmoved inputs", same)
    if known is not None and not task.nothing_moves and is_open(m):
        with task.clock.during("floors"):
            m = bench.attempted("floors", lambda: settled(m), m, always=True)
    m = bench.measured("single inputs", lambda: confirmed(m), m, counted="floors")
    verdict = decide(m.judgement, m.floors)
    cut = bench.stopped and len(task.elements) < len(asked.elements)
    if task.nothing_moves:
        return m
    if known is None or (verdict != "broken" and cut):
        return replace(m, reason="interrupted")
    return replace(m, verdict=verdict, reason=reason(m.judgement, m.floors, verdict))


def _passed(
    task: AuditTask, y: np.ndarray | None, bench: Bench
) -> tuple[AuditTask, np.ndarray | None, Orbits, list[UndefinedPose]]:
    """The task that counts with its labels and orbits, and the elements under which there were NaN."""
    labels = lambda part: None if y is None else y[: part.x.n]
    task.record.recording = True
    orbits: Orbits | None = bench.attempted("elements", lambda: measure_orbits(task))
    task.record.recording = False
    if orbits is None:
        task = stopped_task(task)
        orbits = measure_orbits(task)
        task.record.replaying = False
    bad, moved = orbits.undefined, orbits.moved
    if not moved.any():  # which decides nothing, but is measured all the same
        return replace(task, unmoved=task.x.n), labels(task), orbits, []
    if moved.all() and not bad.any():
        return task, labels(task), orbits, []
    left = np.flatnonzero(bad.mean(axis=1) <= _MOSTLY)
    rows = np.flatnonzero(moved & ~bad[left].any(axis=0))
    first = lambda k: task.row(int(np.flatnonzero(bad[k])[0]))
    found = [
        UndefinedPose(task.contract.label(task.elements[k]), int(bad[k].sum()), first(k))
        for k in np.flatnonzero(bad.any(axis=1))
    ]
    if not len(left) or not len(rows):
        one = found[0]
        where = f"inputs moved by {one.label}, the first of them input {one.index}"
        raise NotFiniteError(f"f(x) holds NaN or infinite values for {where}")
    known = None if y is None else y[rows]
    elements, count = [task.elements[k] for k in left], int((~moved).sum())
    whole = replace(task, unmoved=count, sample=task.x, sample_rows=rows, elements=elements, record=Record())
    task = whole.of_rows(rows)
    return task, known, measure_orbits(task), found


def stopped_task(task: AuditTask) -> AuditTask:
    """The task of those inputs and elements that were measured before the pass was stopped; it replays their outputs.

    All elements for the batches that were finished; if none was, some elements for the first batch. Raises
    KeyboardInterrupt if no element was finished.
    """
    answers, along = task.record.answers, len(task.elements) + 1
    whole = len(answers) // along
    if whole:
        part = task.of_rows(np.arange(min(task.x.n, whole * task.step)))
        return replace(part, record=Record(answers[: whole * along], replaying=True))
    if len(answers) < 2:
        raise KeyboardInterrupt
    part = task.of_rows(np.arange(len(answers[0].leaves[0])))
    elements = task.elements[: len(answers) - 1]
    return replace(part, elements=elements, complete=False, record=Record(list(answers), replaying=True))
