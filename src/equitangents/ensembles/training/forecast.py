"""How long a computation of many equal parts will still take, said in the log now and then."""

from __future__ import annotations

import logging
import time

from equitangents.formatting import duration

logger = logging.getLogger("equitangents")

_QUIET_SECONDS = 20.0  # nothing is said of what takes less, nor more often than so


class Forecast:
    """Counts finished parts of `task` and logs, at level INFO, how much is left of a long one."""

    def __init__(self, task: str, parts: float) -> None:
        self.task, self.parts, self.done = task, parts, 0.0
        self._start = self._said = time.monotonic()

    def advance(self, parts: float = 1.0) -> None:
        """So many more parts are finished."""
        self.done += parts
        now = time.monotonic()
        if now - self._said >= _QUIET_SECONDS and self.done < self.parts:
            left = (now - self._start) * (self.parts / self.done - 1)
            logger.info("%s: %.0f %%, about %s left", self.task, 100 * self.done / self.parts, duration(left))
            self._said = now
