"""The parts of an audit beside the pass over the data: what each needs, how it is measured, and who wants it.

A new part is one more entry of `PARTS`; what it gives stands in the report under the name of its `section`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from equitangents.audit.interruption import Bench
from equitangents.audit.measure.data_symmetry import data_symmetry
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.input_sets import measure_set, transform_curves
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.layers import layer_errors
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.rules import hints
from equitangents.audit.measure.witnesses import witnesses
from equitangents.audit.report.part_sections import Missing

Wanted = Callable[[Measured], bool | str]
"""Whether a part is measured; a text says in the report why it is not."""


@dataclass(frozen=True)
class AuditPart:
    """One part of an audit.

    Args:
        name: what it is called where it is missing, and under which its evaluations are counted.
        needs: sections that were measured before it.
        measure: (the pass over the data, *needs) → the section, or a text that says why there is none; a list may hold
            a `Missing` in place of what it lacks.
        otherwise: the section where it is not measured; parts that give a list add to it.
        wanted_by: whether the audit asks for it.
        section: where in the report it stands, the name if none is given.
        counted: the name under which its evaluations are counted, if another.
        always: measured also in an audit that was stopped.
        each: (name, argument) of all that it is measured for, one after another; None: it is one.
    """

    name: str
    needs: tuple[str, ...]
    measure: Callable[..., Any]
    otherwise: Any
    wanted_by: Wanted
    section: str = ""
    counted: str = ""
    always: bool = False
    each: Callable[[Measured], list[tuple[str, Any]]] | None = None

    def expanded(self, m: Measured) -> list[AuditPart]:
        """The part, or one for each of what it is measured for."""
        if self.each is None:
            return [self]
        return [replace(self, name=name, measure=partial(self.measure, given=given)) for name, given in self.each(m)]


def measure_parts(m: Measured, bench: Bench) -> dict[str, Any]:
    """Every section by its name, one part after another; what is missing is noted on the bench."""
    found = {part.section or part.name: part.otherwise for part in PARTS}
    for part in chain.from_iterable(known.expanded(m) for known in PARTS):
        wanted = part.wanted_by(m)
        run = partial(part.measure, m, *(found[name] for name in part.needs))
        got = wanted if isinstance(wanted, str) else _measured(part, run, bench) if wanted else part.otherwise
        if isinstance(got, str):
            bench.without(part.name, got)
            got = part.otherwise
        if isinstance(got, list):
            for one in (one for one in got if isinstance(one, Missing)):
                bench.without(one.section, one.reason)
            got = [one for one in got if not isinstance(one, Missing)]
        section = part.section or part.name
        found[section] = found[section] + got if isinstance(part.otherwise, list) else got
    if m.quick:
        bench.without("ensemble, remedies, rules and witnesses", "effort='quick'")
    return found


def _measured(part: AuditPart, run: Callable[[], Any], bench: Bench) -> Any:
    if not part.always:
        return bench.measured(part.name, run, part.otherwise, part.counted)
    with bench.clock.during(part.name):
        return bench.stop.attempted(part.name, run, part.otherwise)


def _in_full(m: Measured) -> bool:
    return not m.quick


def _sets(m: Measured) -> list[tuple[str, Any]]:
    return [(f"set {given[0]!r}", given) for given in m.sets]


def _remedies_wanted(m: Measured) -> bool | str:
    if m.quick or not m.group:
        return False
    return "the model gives NaN or infinite values for some moved inputs" if m.judgement.undefined else True


PARTS = (
    AuditPart("ensemble", (), ensemble_law, None, _in_full),
    AuditPart("layers", (), layer_errors, None, lambda m: m.parts.layers is not False or "layers=False"),
    AuditPart("data", (), data_symmetry, None, lambda m: m.parts.data_test is not None or "data_test=None"),
    AuditPart("sets", (), measure_set, [], lambda m: True, section="sets", counted="other sets", each=_sets),
    AuditPart("rules", (), hints, [], lambda m: not m.quick and m.sought is None),
    AuditPart("remedies", ("rules",), remedies, [], _remedies_wanted),
    AuditPart("witnesses", (), witnesses, [], _in_full, always=True),
    AuditPart("transforms", (), transform_curves, [], lambda m: not m.group),
)
