"""Memory for results: that of the latest ones is used again once nobody holds them.

The operating system clears new memory when it is first written, which after two layers takes a fifth to a third of the
time of a kernel field. So up to four blocks of at most 32 MiB stay in the process: a result's two, and those of the one
before it, which a loop still holds while the next is computed.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading

import numpy as np

LINE = 64  # bytes of a cache line
LEAST, MOST = 1 << 20, (32 << 20) + LINE  # bytes of a block that is kept
BLOCKS = 4
_SPARE = 1.25  # a block is used again for what needs at least 1/1.25 of it


class ResultMemory:
    """The blocks of one process, which its threads share."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._lock = threading.Lock()

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Uninitialised numbers on the boundary of a cache line, so that vectors of them are written at once."""
        size = math.prod(shape) * dtype.itemsize
        if not LEAST <= size + LINE <= MOST:
            return _aligned(np.empty(size + LINE, np.uint8), shape, dtype)
        with self._lock:
            return _aligned(self._block(size + LINE), shape, dtype)

    def _block(self, size: int) -> np.ndarray:
        for i, kept in enumerate([block.size for block in self._blocks]):
            if size <= kept <= _SPARE * size and _references(self._blocks, i) == _UNHELD:
                return self._blocks[i]
        block = np.empty(size, np.uint8)
        self._blocks = [block, *self._blocks][:BLOCKS]
        return block


def _aligned(block: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, block, -address(block) % LINE)


def address(array: np.ndarray) -> int:
    """Where the numbers of an array that was made here lie, which is not empty.

    `ctypes.data` takes three times as long. This asks for a buffer to write to, which arrays of callers may not have.
    """
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]


def _references(blocks: list[np.ndarray], i: int) -> int:
    """How often a block is held: each array of numbers in it holds it, too."""
    return sys.getrefcount(blocks[i])


_UNHELD = _references([np.empty(0, np.uint8)], 0)
RESULTS = ResultMemory()
