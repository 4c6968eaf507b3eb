"""The GPU engine under other layouts: rows a thread, threads and shared memory of a block, registers of a thread.

Each row sets one or two of the constants of `engines/gpu/shape.py`, or bounds the compiler's registers, and computes
the same kernels again: microseconds a pair, beside those of the layout that the engine takes, and how far the kernels
are from that layout's. A bound on registers trades spills for more warps at a time. Where the GPU is emulated, one
small network shows that every layout computes the same, and no time means anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
import numpy as np

import equitangents as et
from benchmarks.bench_gpu_engine import median
from equitangents.kernels.engines import gpu
from equitangents.kernels.engines.gpu import compiler, shape, source
from equitangents.kernels.plans.plan import plan, tables_of
from equitangents.kernels.program import Program

nn = et.nn
KIB = 1 << 10


class Layout(NamedTuple):
    """What a block is made of."""

    name: str
    rows: int = shape.ROWS
    threads: int = shape.THREADS
    block_bytes: int = shape.BLOCK_BYTES
    registers: int | None = None  # at most, of a thread; None: as many as the compiler takes


LAYOUTS = (
    Layout("as it is"),
    Layout("4 rows a thread", rows=4),
    Layout("16 rows a thread", rows=16),
    Layout("256 threads, 48 KiB a block", threads=256, block_bytes=48 * KIB),
    Layout("1024 threads, 200 KiB a block", threads=1024, block_bytes=200 * KIB),
    Layout("one fibre a block", threads=128, block_bytes=KIB),
    Layout("at most 64 registers", registers=64),
    Layout("at most 96 registers", registers=96),
)
CASES = (("pool, 8 layers, 32×32×3", 8, 32, 96), ("pool, 3 layers, 16×16×3", 3, 16, 512))  # name, layers, side, inputs
EMULATED = (("pool, 2 layers, 8×8×3", 2, 8, 4),)


@contextmanager
def taken(layout: Layout) -> Iterator[None]:
    """The engine writes kernels of this layout, and no other from before."""
    before = shape.ROWS, shape.THREADS, shape.BLOCK_BYTES, compiler._OPTIONS
    bound = () if layout.registers is None else (f"--maxrregcount={layout.registers}",)
    try:
        shape.ROWS, shape.THREADS, shape.BLOCK_BYTES = layout[1:4]
        compiler._OPTIONS = (*compiler._OPTIONS, *bound)
        forget()
        yield
    finally:
        shape.ROWS, shape.THREADS, shape.BLOCK_BYTES, compiler._OPTIONS = before
        forget()


def forget() -> None:
    """No kernel is left of another layout."""
    source.source.cache_clear()
    compiler.cubin.cache_clear()
    jax.clear_caches()


def main() -> None:
    """One row for each layout of each case."""
    if why := gpu.why_unavailable():
        print(f"nothing to measure: {why}")
        return
    print(f"{'case':<26}{'layout':<32}{'threads':>8}{'KiB':>6}{'µs/pair':>10}{'×':>7}{'apart':>10}")
    rng = np.random.default_rng(0)
    for name, layers, side, count in EMULATED if gpu.emulated() else CASES:
        hidden = nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1)
        net = nn.Sequential(*(hidden, nn.Relu()) * layers, nn.GlobalAvgPool(), nn.Dense(1))
        program = net.lower((side, side, 3))[1]
        assert isinstance(program, Program)
        steps = plan(program)
        x = rng.standard_normal((count, side, side, 3)).astype(np.float32)
        tables, values = jax.device_put((tables_of(steps, program), x))
        usual, usual_seconds = None, 0.0
        for layout in LAYOUTS:
            with taken(layout):
                made = source.source(steps, 3, "float32").shape
                try:
                    found = np.asarray(gpu.jitted_kernels(steps, tables, values, None)[1])
                    seconds = median(lambda: gpu.jitted_kernels(steps, tables, values, None))  # noqa: B023
                except (RuntimeError, jax.errors.JaxRuntimeError) as error:
                    print(f"{name:<26}{layout.name:<32}  cannot run: {str(error).splitlines()[0][:80]}", flush=True)
                    continue
            found = np.triu(found)
            usual, usual_seconds = (found, seconds) if usual is None else (usual, usual_seconds)
            apart = float(np.max(np.abs(found - usual)) / np.max(np.abs(usual)))
            each = seconds / (count * (count + 1) // 2)
            print(
                f"{name:<26}{layout.name:<32}{made.threads:>8}{made.bytes / KIB:>6.0f}{each * 1e6:>10.2f}"
                f"{seconds / usual_seconds:>7.2f}{apart:>10.1e}",
                flush=True,
            )
            if not apart <= 2e-6:  # also where it is no number
                raise SystemExit(f"the layout {layout.name!r} computes other kernels: {apart:.1e} apart")
