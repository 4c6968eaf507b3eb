"""Structured programs by the CPU engine: masks, graphs, attention and dropout, over all pairs of positions.

All is computed in double precision, of one first input and a vector of second ones at a time.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from equitangents.formatting import memory_size
from equitangents.kernels.engines.codes import PANEL_BYTES
from equitangents.kernels.engines.cpu.library import library, threads
from equitangents.kernels.engines.cpu.run import Arrays, called, results
from equitangents.kernels.engines.cpu.structured_plan import (
    Described,
    describe,
    why_not,
)
from equitangents.kernels.engines.protocol import Pair, StructuredRules
from equitangents.kernels.program import flat
from equitangents.kernels.structured import Batch, StructuredProgram

_CELL = 128  # bytes of a pair of positions: two vectors, at most
_MEMORY_LIMIT = 4 << 30  # bytes for the fields of all threads
_LANES = 8  # inputs in a vector, at most


class _Problem(ctypes.Structure):
    _fields_ = [
        ("x1", ctypes.c_void_p),
        ("masks1", ctypes.c_void_p),
        ("graphs1", ctypes.c_void_p),
        ("n1", ctypes.c_int64),
        ("x2", ctypes.c_void_p),
        ("masks2", ctypes.c_void_p),
        ("graphs2", ctypes.c_void_p),
        ("n2", ctypes.c_int64),
        ("nngp", ctypes.c_void_p),
        ("ntk", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("cancel", ctypes.c_void_p),
        ("diagonal", ctypes.c_bool),
        ("instructions", ctypes.c_int),
    ]


class CompiledStructured(StructuredRules):
    """Fields over all pairs of positions in C++."""

    def obstacle(self, program: StructuredProgram) -> str | None:
        """Why the engine cannot run `program`, or None if it can."""
        if why := why_not(program):
            return why
        each = _bytes(_sized(program))
        if each > _MEMORY_LIMIT:
            return (
                f"its fields over all pairs of positions take {memory_size(each)} at a time, more than "
                f"{memory_size(_MEMORY_LIMIT)}"
            )
        return None

    def kernels(self, program: StructuredProgram, one: Batch, other: Batch | None, instruction_set: int = -1) -> Pair:
        """(NNGP, NTK) between two sets of inputs (None: the first with itself, at half the cost), each (N1, N2)."""
        return _run(program, one, other, (len(one.x), len((other or one).x)), instruction_set)

    def diagonal(self, program: StructuredProgram, batch: Batch) -> Pair:
        """(NNGP, NTK) of every input with itself, each (N,)."""
        return _run(program, batch, None, (len(batch.x),), -1)

    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of the fields of all threads, moments of each input, and inputs and results in double precision."""
        found = _sized(program)
        signal = int(np.prod(program.shape, dtype=np.int64)) * channels
        each = (2 * found.sides + signal) * 8
        panels = sum(min(PANEL_BYTES + _LANES * each, (n + _LANES) * each) for n in (n1, n2))
        converted = ((n1 + n2) * signal + 2 * n1 * n2) * 8 if itemsize < 8 else 0
        return _threads(found) * _bytes(found) + panels + converted


def _sized(program: StructuredProgram) -> Described:
    """The steps for inputs with masks, which take more, where the program can have them."""
    masked = bool(program.shape) and not any(op.is_window and not op.sides for op in flat(program.ops))
    return describe(program, 1, masked)


def _bytes(found: Described) -> int:
    return found.fields * found.widest**2 * _CELL


def _threads(found: Described) -> int:
    """Fewer than wanted, where the fields of so many would take too much memory."""
    return max(1, min(threads(), _MEMORY_LIMIT // max(1, _bytes(found))))


def _run(
    program: StructuredProgram, one: Batch, other: Batch | None, shape: tuple[int, ...], instruction_set: int
) -> Pair:
    found = describe(program, one.x.shape[-1], one.mask is not None)
    nngp, ntk = results(shape, np.dtype(np.float64))
    if not nngp.size:
        return nngp, ntk
    held = [_numpy(batch) for batch in (one, other) if batch is not None]
    first, second = (*held, (None, None, None))[:2]
    cancel = ctypes.c_int32(0)
    problem = _Problem(
        *map(_address, first), shape[0], *map(_address, second), shape[-1],
        nngp.ctypes.data, ntk.ctypes.data, _threads(found), ctypes.addressof(cancel), len(shape) == 1, instruction_set,
    )  # fmt: skip
    work = float(np.prod(shape)) * found.widest**2 * len(found.arrays.code) / 14
    called(library().eqt_joint, Arrays.of(found.arrays), problem, cancel, work)
    return nngp, ntk


def _address(array: Any) -> int | None:
    return None if array is None else int(array.ctypes.data)


def _numpy(batch: Batch) -> tuple[Any, Any, Any]:
    kinds = np.float64, np.uint8, np.float64
    return tuple(  # type: ignore[return-value]
        None if part is None else np.ascontiguousarray(np.asarray(part).astype(kind, copy=False))
        for part, kind in zip((batch.x, batch.mask, batch.graphs), kinds, strict=True)
    )
