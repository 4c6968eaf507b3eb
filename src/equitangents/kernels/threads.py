"""Threads of engines: OMP_NUM_THREADS, else the cores available to this process."""

from __future__ import annotations

import os
from functools import lru_cache


def threads() -> int:
    """The number of threads of a CPU engine."""
    wanted = _counted(os.environ.get("OMP_NUM_THREADS", ""))
    if wanted > 0:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=16)
def _counted(text: str) -> int:
    """The first of the numbers that OMP_NUM_THREADS lists; 0 where that is none."""
    first = text.partition(",")[0]
    return int(first) if first.isdecimal() else 0
