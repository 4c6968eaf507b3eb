"""Parts of an audit that are not measured: what was stopped by Ctrl-C, or where the model failed.

What was measured so far becomes a report, and what was not is named in it.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from equitangents.audit.measure.task import Clock
from equitangents.audit.report.part_sections import Missing
from equitangents.errors import NotFiniteError

logger = logging.getLogger("equitangents.audit")

T = TypeVar("T")


class Interruption:
    """Within `watching`, the first Ctrl-C ends the part that is being measured; later parts are left out.

    Between parts it is noted alone, so that a report can be made of what there is. One more Ctrl-C while the report is
    made ends the audit at once.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.missing: list[Missing] = []
        self._measuring = False
        self._signalled = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[Interruption]:
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

    def measured(self, name: str, measure: Callable[[], T], otherwise: Any = None) -> T | Any:
        """What it gives; `otherwise`, and a note that `name` is missing, if this or an earlier part was stopped."""
        if self.stopped:
            self.missing.append(Missing(name, "interrupted before it was measured"))
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
            self.missing.append(Missing(name, "interrupted"))
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


class Bench:
    """Measures one part of an audit after another, and notes in `missing` why some are not there."""

    def __init__(self, clock: Clock, stop: Interruption) -> None:
        self.clock, self.stop = clock, stop
        self.missing: list[Missing] = []

    def without(self, name: str, why: str) -> None:
        """Note that a part is missing."""
        self.missing.append(Missing(name, why))
        logger.info("audit: no %s: %s", name, why)

    def measured(self, name: str, measure: Callable[[], T], otherwise: Any = None, counted: str = "") -> T | Any:
        """What it gives, its evaluations counted; `otherwise` if the audit was stopped, or the model failed on it."""
        with self.clock.during(counted or name):
            try:
                return self.stop.measured(name, measure, otherwise)
            except Exception as error:
                if not (isinstance(error, NotFiniteError) or error is self.clock.failed):
                    raise
                self.without(name, f"the model failed on it: {type(error).__name__}: {error}")
                return otherwise
