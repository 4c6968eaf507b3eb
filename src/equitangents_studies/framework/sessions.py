"""The sessions of a run: each time that it was started or gone on with, how long that took, how it ended, and on what.

A session that is killed stays "running", with the time up to the last note of it: a stage makes one when it is
done, and every few seconds while it says how far it is.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from equitangents.extending import machine_memory

Ending = Literal["running", "interrupted", "failed", "finished"]

_PROCESSORS = Path("/proc/cpuinfo")


class Sessions:
    """The sessions before, as `config.json` of the folder has them, and this one, which begins now."""

    def __init__(self, previous: Mapping[str, Any] | None) -> None:
        self._before = list((previous or {}).get("sessions", []))
        self._began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._machine = machine()
        self._start, self._processor_start = time.monotonic(), _processor_seconds()

    @property
    def seconds(self) -> float:
        """How long all sessions have taken so far."""
        return float(sum(session["seconds"] for session in self._before)) + time.monotonic() - self._start

    def to_dict(self, ended: Ending) -> dict[str, Any]:
        """What `config.json` keeps: the time of all sessions together, and each of them."""
        now = {
            "began": self._began,
            "seconds": round(time.monotonic() - self._start, 3),
            "processor_seconds": round(_processor_seconds() - self._processor_start, 3),
            "ended": ended,
            "machine": self._machine,
        }
        return {"seconds": round(self.seconds, 3), "sessions": [*self._before, now]}


def machine() -> dict[str, Any]:
    """The processor's model, how many of its cores this process may use, and bytes of memory; no names of hosts."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count()
    return {"processor": _processor(), "cores": cores, "memory": machine_memory()}


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not on Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _processor_seconds() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])
