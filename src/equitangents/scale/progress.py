"""How far a computation of tiles or chunks is, and how long the rest will take: in the log, and to whoever asks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from equitangents.formatting import duration

logger = logging.getLogger("equitangents")

_REPORTED = 10.0  # seconds between reports
Told = Callable[[int, int, float], None]  # (tiles there, all tiles, seconds left or NaN)


class Progress:
    """Counts `total` tiles, of which `there` are there at first; `told` is called after each that is added.

    The log names the `task` and what its pieces are called, `unit`.
    """

    def __init__(
        self, there: int, total: int, told: Told | None = None, task: str = "gram", unit: str = "tiles"
    ) -> None:
        self._words = task, unit
        self.there, self.total, self.computed = there, total, 0
        self._first, self._told = there, told
        self._start = self._shown = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that the rest will take at the speed up to now; NaN before the first tile."""
        done = self.there - self._first
        return (time.monotonic() - self._start) * (self.total - self.there) / done if done else float("nan")

    def add(self, tiles: int, computed: int) -> None:
        """So many more tiles are there, of which `computed` were computed now."""
        self.there += tiles
        self.computed += computed
        if self._told is not None:
            self._told(self.there, self.total, self.left)
        now = time.monotonic()
        if now - self._shown >= _REPORTED and self.there < self.total:
            self._shown = now
            task, unit = self._words
            left = duration(self.left)
            logger.info("%s: %d of %d %s are there, about %s to go", task, self.there, self.total, unit, left)
