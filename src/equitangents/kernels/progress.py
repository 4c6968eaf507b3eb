"""Progress of kernels in the log."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("equitangents")

_REPORTED = 10.0  # seconds between reports


class Progress:
    """Logs how far a long run is, every ten seconds."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total
        self._start = self._shown = time.monotonic()

    def step(self) -> None:
        """One more tile is done."""
        self._done += 1
        now = time.monotonic()
        if now - self._shown > _REPORTED and self._done < self._total:
            self._shown = now
            left = (now - self._start) * (self._total / self._done - 1)
            logger.info("kernels: %.0f %% of the tiles are done, %.0f s to go", 100 * self._done / self._total, left)
