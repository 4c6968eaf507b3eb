"""How many threads engines use: OMP_NUM_THREADS, else the cores that this process may use."""

from __future__ import annotations

import os


def threads() -> int:
    """How many threads an engine on the CPU uses."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
