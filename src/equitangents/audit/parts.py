"""The parts of an audit beside the pass over the data: what each needs, how it is measured, and who wants it.

A new part is one more entry of `PARTS`; what it gives stands in the report under its name. The report names the parts
that are missing, such as those on which the model failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.layers import layer_errors
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.rules import hints
from equitangents.audit.measure.task import Clock
from equitangents.audit.measure.witness import worst_input
from equitangents.audit.report.sections import Missing
from equitangents.errors import NotFiniteError

logger = logging.getLogger("equitangents.audit")

T = TypeVar("T")


@dataclass(frozen=True)
class AuditPart:
    """One part of an audit.

    Args:
        name: its attribute of the report; also under which its evaluations are counted.
        measure: (the pass over the data, *needs) → the section, or a text that says why there is none; a list may hold
            a `Missing` in place of what it lacks.
        wanted_by: whether the audit asks for it; a text says in the report why it does not.
        many: whether the section is a list, empty where it is not measured; of others None stands for that.
        needs: sections that were measured before it.
    """

    name: str
    measure: Callable[..., Any]
    wanted_by: Callable[[Measured], bool | str]
    many: bool = False
    needs: tuple[str, ...] = ()


def measure_parts(m: Measured, notes: Notes) -> dict[str, Any]:
    """Every section by its name, one part after another; what is missing is noted."""
    found: dict[str, Any] = {}
    for part in PARTS:
        got: Any = part.wanted_by(m)
        if got is True:
            run = partial(part.measure, m, *(found[name] for name in part.needs))
            with m.task.clock.during(part.name):
                got = notes.measured(m.task.clock, part.name, run)
        if isinstance(got, str):
            notes.without(part.name, got)
        listed = got if isinstance(got, list) else []
        for one in listed:
            if isinstance(one, Missing):
                notes.without(one.section, one.reason)
        section = None if isinstance(got, str | bool) else got
        found[part.name] = [one for one in listed if not isinstance(one, Missing)] if part.many else section
    if not _in_full(m):
        notes.without("ensemble, remedies, rules and the worst input", "effort='quick'")
    return found


def _in_full(m: Measured) -> bool:
    return not m.task.settings.quick


def _remedies_wanted(m: Measured) -> bool | str:
    if not (_in_full(m) and m.group):
        return False
    return "the model gives NaN or infinite values for some moved inputs" if m.judgement.undefined else True


PARTS = (
    AuditPart("ensemble", ensemble_law, _in_full),
    AuditPart("layers", layer_errors, lambda m: m.task.settings.layers is not False or "layers=False"),
    AuditPart("rules", hints, lambda m: _in_full(m) and m.sought is None, many=True),
    AuditPart("remedies", remedies, _remedies_wanted, many=True, needs=("rules",)),
    AuditPart("witness", worst_input, _in_full),
)


class Notes(list[Missing]):
    """Parts of an audit that are missing, and why."""

    def without(self, name: str, why: str) -> None:
        """Note that a part is missing."""
        self.append(Missing(name, why))
        logger.info("audit: no %s: %s", name, why)

    def measured(self, clock: Clock, name: str, measure: Callable[[], T], otherwise: Any = None) -> T | Any:
        """What it gives; `otherwise`, and a note, where the model fails on it."""
        try:
            return measure()
        except Exception as error:
            if not (isinstance(error, NotFiniteError) or error is clock.failed):
                raise
            self.without(name, f"the model failed on it: {type(error).__name__}: {error}")
            return otherwise
