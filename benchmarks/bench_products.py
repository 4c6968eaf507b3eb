"""Kernels of plain vectors against their bound: a bare matrix product by NumPy's BLAS, and one pass of the bare loop.

Milliseconds of processor time of one thread, the least of several turns that take each other's place. OpenBLAS may take
kernels for a lesser instruction set than the processor has: `OPENBLAS_CORETYPE=SkylakeX` asks for those for AVX-512.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.bench_cpu_engine import network
from benchmarks.rooflines import bare_loop

TURNS, LAYERS = 8, 3
CASES = (  # inputs on each side, numbers of each, with themselves
    (2000, 784, "float32", False),
    (2000, 784, "float32", True),
    (1000, 784, "float64", False),
    (1000, 784, "float64", True),
    (2000, 100, "float32", False),
)


def least(runs: dict[str, Callable[[], object]], turns: int = TURNS) -> dict[str, float]:
    """Milliseconds of processor time of each, the least of `turns` after one that is not counted."""
    found = {name: float("inf") for name in runs}
    for turn in range(1 + turns):
        for name, run in runs.items():
            start = time.process_time()
            run()
            took = 1e3 * (time.process_time() - start)
            found[name] = min(found[name], took) if turn else found[name]
    return found


def main() -> None:
    """One row a case."""
    bare = bare_loop()
    if bare is None:
        print("no C++ compiler: no bound")
        return
    print(bare)
    net = network(LAYERS, 0, None)
    print("| vectors | ours, ms | product | pass | bound / ours |\n|---|---:|---:|---:|---:|")
    for n, d, dtype, alone in CASES:
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal((n, d)).astype(dtype) for _ in range(2))
        room = np.empty((n, n), dtype)
        # NumPy knows a product with the same vectors, and computes one half of it
        runs: dict[str, Callable[[], object]] = {
            "ours": partial(net.kernel, x, None if alone else y, engine="cpu"),
            "product": partial(np.matmul, x, (x if alone else y).T, out=room),
        }
        took = least(runs)
        pairs = n * (n + 1) / 2 if alone else n * n
        loop = 1e3 * LAYERS * pairs / bare.distance * (2 if dtype == "float64" else 1)  # of half as many lanes
        said = f"{n:,} with themselves" if alone else f"{n:,} × {n:,}"
        share = (took["product"] + loop) / took["ours"]
        cells = f"{took['ours']:.1f} | {took['product']:.1f} | {loop:.1f} | {share:.2f}"
        print(f"| {said}, d = {d}, {dtype} | {cells} |", flush=True)
