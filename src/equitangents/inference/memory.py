"""How much memory a dense problem takes, known before any of it is allocated."""

from __future__ import annotations

import os

from equitangents.errors import InvalidArgumentError, MemoryLimitError

# Both kernels, the eigenvectors, LAPACK's workspace of two matrices and one for what is being assembled.
_DENSE_MATRICES = 6


def dense_solve_bytes(samples: int) -> int:
    """Bytes at the peak of an eigendecomposition of `samples` training samples in float64."""
    return _DENSE_MATRICES * 8 * samples**2


def default_memory_limit() -> int:
    """Half of the physical memory, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # a platform that does not tell
        return 8 * 2**30


def check_memory(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: half of the physical memory).

    >>> check_memory("a small problem", needed=1000, limit=2000, remedy="…")
    """
    if limit is not None and limit <= 0:
        raise InvalidArgumentError(f"memory_limit is {limit!r}; expected a positive number of bytes, or None")
    allowed = default_memory_limit() if limit is None else limit
    if needed > allowed:
        raise MemoryLimitError(
            f"{task} needs about {_readable(needed)}, the limit is {_readable(allowed)}; {remedy}, "
            f"or raise memory_limit (bytes)"
        )


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
