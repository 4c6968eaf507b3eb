"""How the CPU engine scales with threads, by the clock.

On a machine with other work two threads are never twice as fast; the second number is what as many independent
kernels at once gain at the same moment, so their quotient is the engine's own share of the loss.
"""

import os
import threading
import time
from collections.abc import Callable

import numpy as np

import equitangents as et

nn = et.nn
REPEATS = 9


def seconds(run: Callable[[], object]) -> float:
    """By the clock."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def at_once(run: Callable[[], object], copies: int) -> None:
    """Several calls at the same time."""
    workers = [threading.Thread(target=run) for _ in range(copies)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def main() -> None:
    """One row for each case."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{cores} cores, medians of {REPEATS} turns")
    print(f"{'case':<32}{'threads':>9}{'speed-up':>10}{'independent':>13}{'quotient':>10}")
    rng = np.random.default_rng(0)
    conv = nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1)
    for name, readout, count in (("pool, 3 layers, 16×16×3", nn.GlobalAvgPool(), 40), ("flatten", nn.Flatten(), 400)):
        net = nn.Sequential(*(conv, nn.Relu()) * 3, readout, nn.Dense(1))
        x, y = rng.standard_normal((2, count, 16, 16, 3), dtype=np.float32)

        def run(threads: int = 1) -> None:
            os.environ["OMP_NUM_THREADS"] = str(threads)
            net.kernel(x, y, engine="cpu")  # noqa: B023

        run()
        turns = []
        for _ in range(REPEATS):
            turns.append((seconds(run), seconds(lambda: run(cores)), seconds(lambda: at_once(run, cores))))
        one, several, apart = np.median(np.array(turns), axis=0)
        gain, bound = one / several, cores * one / apart
        print(f"{name:<32}{cores:>9}{gain:>10.2f}{bound:>13.2f}{gain / bound:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
