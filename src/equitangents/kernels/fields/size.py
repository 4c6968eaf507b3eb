"""Sizes of kernels and kernel fields, and errors where they exceed memory."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from equitangents._types import DType
from equitangents.formatting import memory_size
from equitangents.kernels.fields.part import Part
from equitangents.memory import check_fits, fits, process_memory
from equitangents.precision import is_traced


def result_bytes(n1: int, n2: int, itemsize: int) -> int:
    """Bytes of the two matrices between n1 and n2 inputs."""
    return 2 * n1 * n2 * itemsize


def check_result(x1: Any, x2: Any, dtype: DType, working: int) -> None:
    """Raise MemoryLimitError where the kernels of x1 and x2 (None: x1 with itself) cannot fit in memory.

    `working`: bytes held beyond the two matrices while they are computed. What is traced for another device than the
    CPU is left to that device.
    """
    if any(is_traced(x) for x in (x1, x2)) and jax.default_backend() != "cpu":
        return
    n1, n2, dtype = len(x1), len(x1 if x2 is None else x2), np.dtype(dtype)
    results = result_bytes(n1, n2, dtype.itemsize)
    # Engines fill NumPy arrays, which are copied where JAX arrays are wanted.
    copies = 2 if any(isinstance(x, jax.Array) for x in (x1, x2)) else 1
    if fits(copies * results + working):
        return
    side = int((process_memory() / (8 * dtype.itemsize)) ** 0.5) // 100 * 100
    remedy = "compute fewer inputs at a time"
    if side and max(n1, n2) > side:
        remedy += f", such as x1[:{side}] with x2[:{side}]"
    if dtype == np.float64:
        remedy += ", or give float32 inputs, which halves this"
    task = f"a kernel of {n1} × {n2} inputs (NNGP and NTK in {dtype.name}, {memory_size(results)})"
    check_fits(task, copies * results + working, remedy)


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
