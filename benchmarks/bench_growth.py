"""How time and memory grow with inputs, sides, depth, group order and members: fitted exponents, and the expected ones.

Every engine that this machine has and every solver, each on a few sizes in turns; the least of all turns counts, in
processor time of one thread. Memory is the peak beside what the process held before, where it is large enough to
be seen.
A row that grows by more than 0.1 above what is expected is marked. `python -m benchmarks.bench_growth reference
"cpu, MLP"` runs those rows alone whose names begin so.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import ctypes
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import exponent

TURNS, ABOVE = 5, 0.1
SEEN = 8 << 20  # bytes from which a peak of memory says something
_LARGE = 1 << 16  # bytes from which freed memory goes back to the system
_M_MMAP_THRESHOLD = -3
WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
Run = Callable[[], object]


@dataclass(frozen=True)
class Sweep:
    """One number varied: `prepare(size)` gives what is timed; powers of the size that time and memory may grow by."""

    what: str
    against: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Run]
    time: float
    memory: float | None = None  # None: too little to be seen


@dataclass(frozen=True)
class Found:
    """The fitted exponents of a sweep; memory is None where it was not asked for, or too little to be seen."""

    sweep: Sweep
    time: float
    memory: float | None

    @property
    def above(self) -> bool:
        """Whether something grows faster than expected."""
        pairs = ((self.time, self.sweep.time), (self.memory, self.sweep.memory))
        return any(not a <= b + ABOVE for a, b in pairs if a is not None and b is not None)

    def __str__(self) -> str:
        """A row of the table."""
        s = self.sweep
        memory = (
            ("", "") if s.memory is None else (f"{s.memory:g}", "" if self.memory is None else f"{self.memory:.2f}")
        )
        mark = " above" if self.above else ""
        sizes = f"{s.sizes[0]:,} to {s.sizes[-1]:,}"
        return f"| {s.what} | {s.against}, {sizes} | {s.time:g} | {self.time:.2f} | {' | '.join(memory)} |{mark}"


def measured(sweep: Sweep, turns: int = TURNS) -> Found:
    """Run every size in turns, after one run of each that compiles."""
    if sys.platform.startswith("linux"):  # otherwise freed memory may stay in the process, where no peak shows it again
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
    runs = [sweep.prepare(size) for size in sweep.sizes]
    peaks = []
    for run in runs:
        run()
        peaks.append(peak_of(run))
    seconds = [math.inf] * len(runs)
    for _ in range(turns):
        for i, run in enumerate(runs):
            start = time.process_time()
            run()
            seconds[i] = min(seconds[i], time.process_time() - start)
    large = [(s, p) for s, p in zip(sweep.sizes, peaks, strict=True) if p >= SEEN]
    memory = exponent(large) if sweep.memory is not None and len(large) > 1 else None
    return Found(sweep, exponent(list(zip(sweep.sizes, seconds, strict=True))), memory)


def peak_of(run: Run) -> int:
    """Bytes that the process held at most during a run beside those before; 0 where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _status("VmRSS")
        run()
        return _status("VmHWM") - before
    except OSError:
        return 0


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def _inputs(n: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, *shape)).astype(dtype)


def engines() -> Iterator[Sweep]:
    """Of kernels, by each engine that can run here."""
    from equitangents.kernels.engines.select import engines as known

    for engine in known():
        if engine.why_unavailable() is None:
            yield from _of_engine(engine.name)


def _of_engine(engine: str) -> Iterator[Sweep]:
    import equitangents as et
    from equitangents import nn

    few = engine == "reference"  # an order of magnitude slower
    conv, dense = (nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu()), (nn.Dense(1, **WEIGHTS), nn.Relu())
    end = (nn.GlobalAvgPool(), nn.Dense(1))
    pooled, flat = nn.Sequential(*conv * 3, *end), nn.Sequential(*conv * 3, nn.Flatten(), nn.Dense(1))
    mlp = nn.Sequential(*dense * 3, nn.Dense(1))
    attention = nn.Sequential(nn.Dense(1, **WEIGHTS), nn.Attention(1, heads=1), nn.Relu(), *end)

    def turned(order: int) -> nn.Sequential:
        group = et.groups.wallpaper(rotations=min(order, 4), reflections=order == 8, shape=(8, 8))
        lifted = (
            nn.Lift(group, 1, window=(3, 3), **WEIGHTS),
            nn.Relu(),
            nn.GroupConv(1, window=(3, 3), **WEIGHTS),
            nn.Relu(),
        )
        return nn.Sequential(*lifted, nn.GroupPool(), nn.Dense(1))

    def run(net: nn.Sequential, n: int, *shape: int) -> Run:
        return partial(net.kernel, _inputs(n, *shape), engine=engine)

    def translated(order: int) -> Any:
        side = math.isqrt(order)
        whole = nn.Sequential(nn.Flatten(), *dense * 3, nn.Dense(1))
        return et.kernels.orbit_average(whole, et.actions.translations((side, side)))

    numbers, sides = ((16, 32, 64), (4, 6, 8)) if few else ((32, 64, 128), (8, 16, 24))
    yield Sweep(f"{engine}, pooled", "inputs", numbers, lambda n: run(pooled, n, 8, 8, 3), 2)
    yield Sweep(f"{engine}, pooled", "side", sides, lambda s: run(pooled, 16, s, s, 3), 4)
    depths = (2, 4, 8) if few else (2, 4, 8, 16)
    deep = lambda d: nn.Sequential(*conv * d, *end)
    yield Sweep(f"{engine}, pooled", "depth", depths, lambda d: run(deep(d), 16, 8, 8, 3), 1)
    vectors = (1000, 2000, 3000) if few else (700, 1400, 2800)  # beyond these the system clears new memory for results
    many, wide = (32, (8, 16, 32)) if few else (256, (16, 32, 48))
    yield Sweep(f"{engine}, MLP", "inputs", vectors, lambda n: run(mlp, n, 16), 2)
    yield Sweep(f"{engine}, flattened", "side", wide, lambda s: run(flat, many, s, s, 3), 2, 2)
    yield Sweep(f"{engine}, group convolutions", "order", (2, 4, 8), lambda g: run(turned(g), 8, 8, 8, 3), 1)
    shapes = lambda g: (math.isqrt(g), math.isqrt(g), 3)
    orders = (64, 256, 1024)
    if not few:  # an average is made of kernels of the engine that is chosen
        average = lambda g: partial(translated(g).kernel, _inputs(16, *shapes(g)))
        yield Sweep("orbit average, MLP", "order", orders, average, 1)
    tokens = lambda p: run(attention, 8, p, 3)
    yield Sweep(f"{engine}, attention", "positions", (16, 32, 64), tokens, 3)


def training() -> Iterator[Sweep]:
    """Of ensembles, and of what stands for many inputs."""
    import equitangents as et
    from equitangents import nn

    net = nn.Sequential(nn.Conv(8, (3, 3)), nn.Relu(), nn.Flatten(), nn.Dense(2))
    x, y = _inputs(64, 8, 8, 1), _inputs(64, 2)

    def members(n: int) -> Run:
        return lambda: et.DeepEnsemble(net, n, learning_rate=0.01, batch_size=32, epochs=10).fit(x, y)

    yield Sweep("DeepEnsemble, training", "members", (8, 16, 32, 64), members, 1)
    conv = (nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu())
    features = et.kernels.random_features(nn.Sequential(*conv * 2, nn.GlobalAvgPool(), nn.Dense(1)), 256, seed=0)
    transformed = lambda n, side: partial(features.transform, _inputs(n, side, side, 3))
    yield Sweep("random features", "inputs", (64, 128, 256), lambda n: transformed(n, 8), 1)
    yield Sweep("random features", "side", (8, 16, 32), lambda side: transformed(32, side), 2)


def solving() -> Iterator[Sweep]:
    """Of solvers, on matrices of an MLP's NTK."""
    from equitangents import nn, solvers

    mlp = nn.Sequential(*(nn.Dense(1, **WEIGHTS), nn.Relu()) * 2, nn.Dense(1))

    def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
        return np.array(mlp.kernel(_inputs(n, 20, dtype="float64")).ntk), _inputs(n, 10, dtype="float64")

    def solved(how: Any, n: int, **more: Any) -> Run:
        theta, y = problem(n)
        return lambda: solvers.solve(theta, y, ridge=1e-2, solver=how, **more)

    def on_disk(n: int) -> Run:
        """Each run in a folder of its own, since factors are kept."""
        theta, y = problem(n)

        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                solvers.solve(theta, y, ridge=1e-2, solver=solvers.OutOfCore(path=Path(folder), tile=250))

        return run

    sizes, small = (750, 1500, 3000), (250, 500, 1000)
    yield Sweep("Cholesky", "inputs", sizes, partial(solved, "cholesky"), 3, 2)
    yield Sweep("Cholesky in float32", "inputs", sizes, partial(solved, solvers.Cholesky(precision="float32")), 3, 2)
    yield Sweep("eigendecomposition", "inputs", small, partial(solved, "eigh"), 3, 2)
    yield Sweep("out of core", "inputs", sizes, on_disk, 3, 2)
    yield Sweep("PCG, rank N/10", "inputs", sizes, partial(solved, "pcg"), 3, 2)
    # at one rank and ridge the condition grows with the inputs, and iterations as its root: 62, 83 and 110 of them
    yield Sweep("PCG, rank 50", "inputs", sizes, partial(solved, solvers.PCG(rank=50)), 2.5, 2)
    yield Sweep("Lanczos, time 100", "inputs", sizes, lambda n: solved("lanczos", n, time=100.0), 2, 2)
    landmarks = solvers.Nystrom(rank=100)
    yield Sweep("Nyström, 100 landmarks", "inputs", sizes, partial(solved, landmarks), 1, 1)


def main(wanted: Sequence[str] = ()) -> None:
    """Print one table, and how many of its rows grow by more than expected: all rows, or those that begin so."""
    print("| what | against | time: expected | found | memory: expected | found |\n|---|---|---:|---:|---:|---:|")
    above = rows = 0
    for sweep in chain(engines(), training(), solving()):
        if wanted and not sweep.what.startswith(tuple(wanted)):
            continue
        found = measured(sweep)
        rows, above = rows + 1, above + found.above
        print(found, flush=True)
    print(f"\n{above} of {rows} rows grow by more than {ABOVE} above what is expected")


if __name__ == "__main__":
    main(sys.argv[1:])
