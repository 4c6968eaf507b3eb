"""The parts of an audit beside the pass over the data: what each needs, how it is measured, and who wants it.

A new part is one more entry of `PARTS`; what it gives stands in the report under its name. Of an audit that was stopped
by Ctrl-C, or where the model failed, the report holds what was measured so far and names what was not.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from equitangents.audit.measure.data_symmetry import data_symmetry
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.input_sets import transform_curves
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.layers import layer_errors
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.rules import hints
from equitangents.audit.measure.task import Clock
from equitangents.audit.measure.witnesses import witnesses
from equitangents.audit.report.part_sections import Missing
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
        always: measured also in an audit that was stopped.
    """

    name: str
    measure: Callable[..., Any]
    wanted_by: Callable[[Measured], bool | str]
    many: bool = False
    needs: tuple[str, ...] = ()
    always: bool = False


def measure_parts(m: Measured, bench: Bench) -> dict[str, Any]:
    """Every section by its name, one part after another; what is missing is noted on the bench."""
    found: dict[str, Any] = {}
    for part in PARTS:
        got: Any = part.wanted_by(m)
        if got is True:
            run = partial(part.measure, m, *(found[name] for name in part.needs))
            got = bench.measured(part.name, run, always=part.always)
        if isinstance(got, str):
            bench.without(part.name, got)
        listed = got if isinstance(got, list) else []
        for one in listed:
            if isinstance(one, Missing):
                bench.without(one.section, one.reason)
        section = None if isinstance(got, str | bool) else got
        found[part.name] = [one for one in listed if not isinstance(one, Missing)] if part.many else section
    if not _in_full(m):
        bench.without("ensemble, remedies, rules and witnesses", "effort='quick'")
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
    AuditPart("data", data_symmetry, lambda m: m.task.settings.data_test is not None or "data_test=None"),
    AuditPart("rules", hints, lambda m: _in_full(m) and m.sought is None, many=True),
    AuditPart("remedies", remedies, _remedies_wanted, many=True, needs=("rules",)),
    AuditPart("witnesses", witnesses, _in_full, many=True, always=True),
    AuditPart("transforms", transform_curves, lambda m: not m.group, many=True),
)


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
        """As `attempted`, its evaluations counted; `otherwise`, and a note, also where the model fails on it."""
        with self.clock.during(counted or name):
            try:
                return self.attempted(name, measure, otherwise, always)
            except Exception as error:
                if not (isinstance(error, NotFiniteError) or error is self.clock.failed):
                    raise
                self.without(name, f"the model failed on it: {type(error).__name__}: {error}")
                return otherwise

    def attempted(self, name: str, measure: Callable[[], T], otherwise: Any = None, always: bool = False) -> T | Any:
        """What it gives; `otherwise`, and a note, if this or, unless `always`, an earlier part was stopped."""
        if self.stopped and not always:
            self.interrupted.append(Missing(name, "interrupted before it was measured"))
            return otherwise
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
