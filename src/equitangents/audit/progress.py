"""How far a long audit is: a line on stderr, or the log; how many inputs the model will be given, about."""

from __future__ import annotations

import logging
import sys
import time

from equitangents.formatting import duration
from equitangents.scale.progress import Told, told_by

logger = logging.getLogger("equitangents.audit")

_LOGGED = 10.0  # seconds between lines of the log
_PRINTED = 4.0  # and on stderr, where it is not a terminal
_REDRAWN = 0.5  # and where it is one; nothing is drawn in the first second


class Progress:
    """Says every few seconds how much is done and how long the rest takes; nothing of short audits.

    `shown`: True, on stderr, in place on a terminal; False, to the log; a function is called after every batch instead.
    """

    def __init__(self, planned: int, shown: bool | Told, what: str = "inputs") -> None:
        self._planned, self._shown, self._what = max(planned, 1), shown is True, what
        self._told = told_by(shown)
        self._terminal = self._shown and sys.stderr.isatty()
        self._start = time.monotonic()
        self._last = self._start + (1.0 - _REDRAWN if self._terminal else 0.0)
        self._drawn = False

    def step(self, done: int) -> None:
        """The model was given `done` inputs so far, or structures."""
        now = time.monotonic()
        if self._told is not None:
            share = min(done / self._planned, 0.99)
            self._told(done, self._planned, (now - self._start) * (1 / share - 1) if share > 0 else float("nan"))
            return
        if now - self._last < (_REDRAWN if self._terminal else _PRINTED if self._shown else _LOGGED):
            return
        self._last = now
        share = min(done / self._planned, 0.99)
        left = (now - self._start) * (1 / max(share, 1e-9) - 1)
        line = f"audit: {share:.0%} done, {done:,} {self._what} evaluated, about {duration(left)} left"
        if self._terminal:
            self._drawn = True
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif self._shown:
            print(line, file=sys.stderr, flush=True)
        else:
            logger.info("%s", line)

    def close(self) -> None:
        """Take the line off the terminal."""
        if self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
