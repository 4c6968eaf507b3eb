"""The parts of an audit beside the pass over the data: what each needs, how it is measured, and who wants it.

A new part is one more entry of `PARTS`; what it gives stands in the report under the name of its `section`. Of an audit
that was stopped by Ctrl-C, or where the model failed, the report holds what was measured so far and names what was not.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from equitangents.audit.measure.data_symmetry import data_symmetry
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.input_sets import measure_set, transform_curves
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.layers import layer_errors
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.rules import hints
from equitangents.audit.measure.task import Clock
from equitangents.audit.measure.witnesses import witnesses
from equitangents.audit.report.part_sections import Missing
from equitangents.errors import NotFiniteError

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
        got = part.otherwise
        if isinstance(wanted, str):
            got = wanted
        elif wanted:
            got = bench.measured(part.name, run, part.otherwise, part.counted, part.always)
        if isinstance(got, str):
            bench.without(part.name, got)
            got = part.otherwise
        if isinstance(got, list):
            for one in (one for one in got if isinstance(one, Missing)):
                bench.without(one.section, one.reason)
            got = [one for one in got if not isinstance(one, Missing)]
        section = part.section or part.name
        found[section] = found[section] + got if isinstance(part.otherwise, list) else got
    if m.task.settings.quick:
        bench.without("ensemble, remedies, rules and witnesses", "effort='quick'")
    return found


def _in_full(m: Measured) -> bool:
    return not m.task.settings.quick


def _sets(m: Measured) -> list[tuple[str, Any]]:
    return [(f"set {given[0]!r}", given) for given in m.sets]


def _remedies_wanted(m: Measured) -> bool | str:
    if m.task.settings.quick or not m.group:
        return False
    return "the model gives NaN or infinite values for some moved inputs" if m.judgement.undefined else True


PARTS = (
    AuditPart("ensemble", (), ensemble_law, None, _in_full),
    AuditPart("layers", (), layer_errors, None, lambda m: m.task.settings.layers is not False or "layers=False"),
    AuditPart("data", (), data_symmetry, None, lambda m: m.task.settings.data_test is not None or "data_test=None"),
    AuditPart("sets", (), measure_set, [], lambda m: True, section="sets", counted="other sets", each=_sets),
    AuditPart("rules", (), hints, [], lambda m: not m.task.settings.quick and m.sought is None),
    AuditPart("remedies", ("rules",), remedies, [], _remedies_wanted),
    AuditPart("witnesses", (), witnesses, [], _in_full, always=True),
    AuditPart("transforms", (), transform_curves, [], lambda m: not m.group),
)


logger = logging.getLogger("equitangents.audit")

T = TypeVar("T")


class Bench:
    """Measures one part of an audit after another, and notes in `missing` and `interrupted` why some are not there.

    Within `watching`, the first Ctrl-C ends the part that is being measured; later parts are left out. Between parts it
    is noted alone, so that a report can be made of what there is. One more Ctrl-C while the report is made ends the
    audit at once.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.stopped = False
        self.missing: list[Missing] = []
        self.interrupted: list[Missing] = []
        self._measuring = False
        self._signalled = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[Bench]:
        """Handle Ctrl-C; where somebody else does already, or in another thread, only what is raised is caught."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield self
            return
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def without(self, name: str, why: str) -> None:
        """Note that a part is missing."""
        self.missing.append(Missing(name, why))
        logger.info("audit: no %s: %s", name, why)

    def measured(
        self, name: str, measure: Callable[[], T], otherwise: Any = None, counted: str = "", always: bool = False
    ) -> T | Any:
        """What it gives, its evaluations counted; `otherwise` if the audit was stopped, or the model failed on it.

        `always`: also in an audit that was stopped.
        """
        with self.clock.during(counted or name):
            try:
                if always:
                    return self.attempted(name, measure, otherwise)
                return self.unless_stopped(name, measure, otherwise)
            except Exception as error:
                if not (isinstance(error, NotFiniteError) or error is self.clock.failed):
                    raise
                self.without(name, f"the model failed on it: {type(error).__name__}: {error}")
                return otherwise

    def unless_stopped(self, name: str, measure: Callable[[], T], otherwise: Any = None) -> T | Any:
        """What it gives; `otherwise`, and a note that `name` is missing, if this or an earlier part was stopped."""
        if self.stopped:
            self.interrupted.append(Missing(name, "interrupted before it was measured"))
            return otherwise
        return self.attempted(name, measure, otherwise)

    def attempted(self, name: str, measure: Callable[[], T], otherwise: Any = None) -> T | Any:
        """What it gives, also if an earlier part was stopped; `otherwise`, and a note, if this one is."""
        self._measuring, self._signalled = True, False
        try:
            return measure()
        except KeyboardInterrupt:
            if not self.stopped:
                logger.warning("interrupted while measuring %s; a partial report is made", name)
            self.stopped = True
            self.interrupted.append(Missing(name, "interrupted"))
            return otherwise
        finally:
            self._measuring = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was lost: Python drops it in callbacks of the garbage collector."""
        if self._measuring and self._signalled:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: Any) -> None:
        self._signalled = True
        if self._measuring or self.stopped:
            raise KeyboardInterrupt
        self.stopped = True
