"""How much memory this process may use, and refusing in time what would take more.

The least of the machine's physical memory, the limits of the control groups (containers) that the process is in, and
its own limit on addresses (`ulimit -v`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from numbers import Real
from pathlib import Path

from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.formatting import memory_size

_UNKNOWN = 16 * 2**30  # bytes, on a platform that does not tell
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


@cache
def process_memory() -> int:
    """Bytes that this process may use at most, other programs aside; found out once."""
    return min([_physical(), *_group_limits(_GROUPS, _MOUNT), *_address_limit()])


def default_memory_limit() -> int:
    """Half of `process_memory()`: what one fit may take unless it is told otherwise."""
    return process_memory() // 2


def check_memory(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: half of what the process may use).

    >>> check_memory("a small problem", needed=1000, limit=2000, remedy="…")
    """
    if limit is not None and not (isinstance(limit, Real) and limit > 0):
        raise InvalidArgumentError(f"memory_limit is {limit!r}; expected a positive number of bytes, or None")
    allowed = default_memory_limit() if limit is None else limit
    if needed > allowed:
        raise MemoryLimitError(
            f"{task} needs about {memory_size(needed)}, the limit is {memory_size(allowed)}; {remedy}, "
            f"or raise memory_limit (bytes)"
        )


def check_fits(task: str, needed: int, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes are more than the process may use: it could not but fail.

    >>> check_fits("a small array", needed=1000, remedy="…")
    """
    if needed > process_memory():
        raise MemoryLimitError(
            f"{task} needs about {memory_size(needed)} of memory, and there are {memory_size(process_memory())}; "
            f"{remedy}"
        )


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


def _group_limits(groups: Path, mount: Path) -> Iterator[int]:
    """Limits of the control groups in `groups`, a line `number:controllers:path` each, and of those around them."""
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


def _address_limit() -> Iterator[int]:
    try:
        import resource  # not on Windows
    except ImportError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft
