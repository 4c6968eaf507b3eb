"""What the machine could do: the bare loop (`roofline.cpp`) on all cores at once, and a bare matrix product."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equitangents.kernels.engines.cpu.run import instruction_sets, threads

_FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math"]
_AVX2 = ["-mavx2", "-mfma", "-mbmi2"]
_AVX512 = [f"-mavx512{part}" for part in ("f", "dq", "bw", "vl", "cd")]
# By the engine's names of instruction sets: bytes of a vector, and the flags of native/CMakeLists.txt
_INSTRUCTIONS: dict[str, tuple[int, list[str]]] = {
    "sse2": (16, []),
    "avx2": (32, _AVX2),
    "avx512": (64, [*_AVX512, *_AVX2]),
    "neon": (16, []),
    "generic": (16, []),
}


class Bare(NamedTuple):
    """Element-layers per second carrying K and carrying D, and the instruction set that ran."""

    covariance: float
    distance: float
    instructions: str

    def __str__(self) -> str:
        """One line for the head of a table."""
        return (
            f"bare loop, float32, {self.instructions}: {self.covariance:.3g} element-layers/s carrying K, "
            f"{self.distance:.3g} carrying D"
        )


def bare_loop(copies: int = 1, instructions: str | None = None) -> Bare | None:
    """Of `copies` loops at once, compiled for the `instructions` that the engine uses; None without a compiler."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    instructions = instruction_sets()[-1] if instructions is None else instructions
    width, flags = _INSTRUCTIONS[instructions]
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "roofline")
        source = str(Path(__file__).with_name("roofline.cpp"))
        subprocess.run([compiler, *_FLAGS, *flags, f"-DEQT_BYTES={width}", source, "-o", program], check=True)
        running = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True) for _ in range(copies)]
        found = [tuple(map(float, process.communicate()[0].split())) for process in running]
    return Bare(sum(f[0] for f in found), sum(f[1] for f in found), instructions)


def all_cores() -> Bare | None:
    """The bare loop on as many cores as the engine uses."""
    return bare_loop(threads())


def matrix_product(n1: int, n2: int, d: int) -> float:
    """Seconds of processor time of a float32 product (n1, d) × (d, n2) by NumPy's BLAS, the best of several."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, d)).astype(np.float32) for n in (n1, n2))
    times = []
    for _ in range(6):
        start = time.process_time()
        a @ b.T
        times.append(time.process_time() - start)
    return min(times[1:])


def stream() -> float:
    """Bytes per second that one NumPy addition of large arrays moves."""
    a, b, c = (np.ones(1 << 24, np.float32) for _ in range(3))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        np.add(a, b, out=c)
        times.append(time.perf_counter() - start)
    return 3 * a.nbytes / min(times)
