"""Progress of a long computation and its remaining time: in the log, on stderr, or by a callback."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from equitangents.errors import InvalidTypeError
from equitangents.formatting import duration

logger = logging.getLogger("equitangents")

_REPORTED = 10.0  # seconds between reports
ProgressCallback = Callable[[int, int, float], None]  # (pieces there, all pieces, seconds left or NaN)


def told_by(progress: bool | ProgressCallback | None) -> ProgressCallback | None:
    """The callback in `progress`, or None; InvalidTypeError unless it is a bool, a function or None."""
    if progress is None or isinstance(progress, bool):
        return None
    if not callable(progress):
        raise InvalidTypeError("progress", progress, "True, False or a function of (done, all, seconds)")
    return progress


class Progress:
    """Counts `total` pieces, `there` of them done at first; calls `progress`, if a function, after each addition.

    Every ten seconds a line names the `task` and what its pieces are called, `unit`: in the log, or of True on stderr.
    """

    def __init__(
        self, there: int, total: int, progress: bool | ProgressCallback | None = None, *, task: str, unit: str = "tiles"
    ) -> None:
        self._words = task, unit
        self.there, self.total, self.computed = there, total, 0
        self._first, self._told, self._on_stderr = there, told_by(progress), progress is True
        self._start = self._shown = time.monotonic()

    @property
    def left(self) -> float:
        """Estimated remaining seconds at the present speed; NaN before the first piece."""
        done = self.there - self._first
        return (time.monotonic() - self._start) * max(self.total - self.there, 0) / done if done else float("nan")

    def add(self, pieces: int = 1, computed: int = 1) -> None:
        """Add `pieces` finished pieces, `computed` of which were computed now."""
        self.there += pieces
        self.computed += computed
        if self._told is not None:
            self._told(self.there, self.total, self.left)
        now = time.monotonic()
        if now - self._shown >= _REPORTED and self.there < self.total:
            self._shown = now
            task, unit = self._words
            said = f"{task}: {self.there} of {self.total} {unit} are there, about {duration(self.left)} to go"
            if self._on_stderr:
                print(said, file=sys.stderr, flush=True)
            else:
                logger.info("%s", said)
