"""Progress of long computations, with the time left: in the log, on stderr, or by a callback."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from equitangents.errors import InvalidTypeError
from equitangents.formatting import duration

logger = logging.getLogger("equitangents")

_REPORTED = 10.0  # seconds between reports
ProgressCallback = Callable[[int, int, float], None]  # (pieces done, all pieces, seconds left or NaN)


def callback_of(progress: bool | ProgressCallback | None) -> ProgressCallback | None:
    """`progress` if it is a function, None for a bool or None; raises InvalidTypeError otherwise."""
    if progress is None or isinstance(progress, bool):
        return None
    if not callable(progress):
        raise InvalidTypeError("progress", progress, "True, False or a function of (done, all, seconds)")
    return progress


class Progress:
    """Counts `total` pieces, `there` of them done at the start; a function `progress` is called after each addition.

    Every ten seconds a line with `task`, the count of `unit` and the time left goes to the log, or with True to stderr.
    """

    def __init__(
        self, there: int, total: int, progress: bool | ProgressCallback | None = None, *, task: str, unit: str = "tiles"
    ) -> None:
        self._task, self._unit = task, unit
        self.there, self.total, self.computed = there, total, 0
        self._first, self._callback, self._on_stderr = there, callback_of(progress), progress is True
        self._start = self._shown = time.monotonic()

    @property
    def left(self) -> float:
        """Estimated remaining seconds at the present speed; NaN before the first piece."""
        done = self.there - self._first
        return (time.monotonic() - self._start) * max(self.total - self.there, 0) / done if done else float("nan")

    def add(self, pieces: int = 1, computed: int = 1) -> None:
        """Count `pieces` more, `computed` of them computed now."""
        self.there += pieces
        self.computed += computed
        if self._callback is not None:
            self._callback(self.there, self.total, self.left)
        now = time.monotonic()
        if now - self._shown >= _REPORTED and self.there < self.total:
            self._shown = now
            left = duration(self.left)
            message = f"{self._task}: {self.there} of {self.total} {self._unit} are there, about {left} to go"
            if self._on_stderr:
                print(message, file=sys.stderr, flush=True)
            else:
                logger.info("%s", message)
