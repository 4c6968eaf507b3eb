"""How large a kernel field is, known before it is computed, and what to ask for where it is too large."""

from __future__ import annotations

import numpy as np

from equitangents._types import DType
from equitangents.formatting import memory_size
from equitangents.kernels.fields.part import Part
from equitangents.memory import check_fits, process_memory


def field_bytes(part: Part, n1: int, n2: int, itemsize: int) -> int:
    """Bytes of NNGP and NTK between n1 and n2 inputs, at the wanted pairs of positions."""
    return 2 * n1 * n2 * part.layout.numbers * itemsize


def check_field(part: Part, n1: int, n2: int, dtype: DType, working: int, copied: bool = False) -> int:
    """Bytes beyond the inputs, at most; raises MemoryLimitError where these cannot fit in memory.

    `working`: bytes held beyond the results while they are computed; `copied`: results are copied to JAX arrays.
    """
    dtype = np.dtype(dtype)
    results = field_bytes(part, n1, n2, dtype.itemsize)
    needed = (2 if copied else 1) * results + working
    if needed > process_memory():
        task = f"a kernel field of {n1} × {n2} inputs at {part} (NNGP and NTK in {dtype.name}, {memory_size(results)})"
        check_fits(task, needed, _remedy(part, n1, n2, dtype))
    return needed


def _remedy(part: Part, n1: int, n2: int, dtype: np.dtype) -> str:
    ways = []
    if part.kind == "all":
        ways.append("ask for positions='same' or for pairs of positions")
    pairs = int(process_memory() / (8 * dtype.itemsize * max(1, part.layout.numbers)))
    side = int(pairs**0.5)
    if 0 < side < max(n1, n2):
        ways.append(f"compute fewer inputs at a time, such as x1[:{side}] with x2[:{side}]")
    elif max(n1, n2) > 1:
        ways.append("compute fewer inputs at a time")
    if dtype == np.float64:
        ways.append("give float32 inputs, which halves this")
    return ", or ".join(ways) if ways else "use smaller inputs"
