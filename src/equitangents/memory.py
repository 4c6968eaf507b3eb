"""Available memory, checks before allocations, and the number of threads.

Available memory is the least of the machine's physical memory, the limits of the process's control groups (containers)
and its own limits on addresses and data (`ulimit -v`, `-d`), each less what the process holds already.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from functools import cache
from numbers import Real
from pathlib import Path

from equitangents.errors import InvalidArgumentError, MemoryLimitError

_UNKNOWN = 16 * 2**30  # bytes, where the platform has no such figure
_EXHAUSTED = "RESOURCE_EXHAUSTED"
_ADDRESSES, _RESIDENT, _DATA = range(3)
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_PAGES = Path("/proc/self/statm")  # numbers of pages that this process holds


def process_memory() -> int:
    """Bytes that this process may take in addition to those that it holds, ignoring other programs."""
    held = _held()
    return max(0, min(limit - held[of] for of, limit in (*_inherited(), *_own_limits())))


def machine_memory() -> int:
    """Bytes that a process may use here in total."""
    return min(limit for _, limit in (*_inherited(), *_own_limits()))


def default_memory_limit() -> int:
    """Half of `process_memory()`: the default memory limit of one fit."""
    return process_memory() // 2


def ran_out(error: BaseException) -> bool:
    """Whether an error of Python, PyTorch or JAX means that memory ran out.

    JAX has one class for every failure of a program; out of memory has the status RESOURCE_EXHAUSTED.
    """
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)):
        return True
    if jax is None or not isinstance(error, jax.errors.JaxRuntimeError):
        return False
    status = getattr(error, "error_code_string", None)
    return str(error).startswith(_EXHAUSTED) if status is None else bool(status == _EXHAUSTED)


def check_memory(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: half of the available memory).

    >>> check_memory("a small problem", needed=1000, limit=2000, remedy="…")
    """
    if limit is not None and not (isinstance(limit, Real) and limit > 0):
        raise InvalidArgumentError("memory_limit", limit, "a positive number of bytes, or None")
    allowed = default_memory_limit() if limit is None else limit
    if needed > allowed:
        raise MemoryLimitError(task, needed, allowed, f"{remedy}, or raise memory_limit (bytes)")


def check_fits(task: str, needed: int, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes are more than the available memory.

    >>> check_fits("a small array", needed=1000, remedy="…")
    """
    if needed > process_memory():
        raise MemoryLimitError(task, needed, process_memory(), remedy)


def _held() -> tuple[int, int, int]:
    """Bytes that this process holds: addresses, resident memory, data; 0 where the system does not report them."""
    try:
        file = os.open(_PAGES, os.O_RDONLY)  # every small kernel asks: Python's own files take three times as long
        try:
            pages = [*map(int, os.read(file, 256).split())]
        finally:
            os.close(file)
        return pages[0] * mmap.PAGESIZE, pages[1] * mmap.PAGESIZE, pages[5] * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource  # not on Windows
    except ImportError:
        return 0, 0, 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes
    return 0, int(most) * (1 if sys.platform == "darwin" else 1024), 0


@cache
def _inherited() -> tuple[tuple[int, int], ...]:
    """Limits from outside the process, which do not change, as (index in `_held`, bytes)."""
    return tuple((_RESIDENT, limit) for limit in (_physical(), *_group_limits(_GROUPS, _MOUNT)))


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


def _group_limits(groups: Path, mount: Path) -> Iterator[int]:
    """Limits of the control groups in `groups` (lines `number:controllers:path`) and of their parents."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:  # no control groups here
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            root, name = mount, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = mount / "memory", "memory.limit_in_bytes"
        else:
            continue
        inside = root / path.lstrip("/")
        # Inside a container the path may be that of the host, which is not mounted: then the mount's root has it.
        for place in (inside, *(p for p in inside.parents if p == root or root in p.parents)):
            try:
                text = (place / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit():  # else "max", no limit
                yield int(text)


def _own_limits() -> Iterator[tuple[int, int]]:
    """Limits that the process may lower for itself, as (index in `_held`, bytes)."""
    try:
        import resource  # not on Windows
    except ImportError:
        return
    for counted, kind in ((_ADDRESSES, resource.RLIMIT_AS), (_DATA, resource.RLIMIT_DATA)):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield counted, soft


def threads() -> int:
    """The number of threads for engines: OMP_NUM_THREADS, else the cores available to this process."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
