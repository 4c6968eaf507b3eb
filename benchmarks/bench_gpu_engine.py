"""The GPU engine: microseconds a pair, beside the bounds of arithmetic and of the GPU's memory.

An element-layer is one position of one fibre through one convolution and ReLU, NNGP and NTK together. The arithmetic
bound counts its instructions in the machine code (`INSTRUCTIONS`), issued in every cycle. The memory bound reads and
writes D and Θ of each once in the GPU's memory, at the rate of a copy, as engines do that leave the chip between
layers.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import equitangents as et
from equitangents.kernels.engines import gpu
from equitangents.kernels.plans.plan import plan, tables_of
from equitangents.kernels.program import Program

nn = et.nn
INSTRUCTIONS = 72  # of an element-layer with a 3×3 window and ReLU on a torus, in code for compute capability 9.0
LANES = 128  # numbers that a multiprocessor computes with in a cycle
CASES = (  # name, layers, side, readout, padding, inputs
    ("pool, 8 layers, 32×32×3", 8, 32, nn.GlobalAvgPool(), "circular", 96),
    ("pool, 8 layers, 32×32×3", 8, 32, nn.GlobalAvgPool(), "zero", 96),
    ("pool, 3 layers, 16×16×3", 3, 16, nn.GlobalAvgPool(), "circular", 512),
    ("flatten, 8 layers, 32×32×3", 8, 32, nn.Flatten(), "circular", 1024),
)


def clock() -> float | None:
    """The highest clock of the multiprocessors, in Hz."""
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True)
    return float(done.stdout.splitlines()[0]) * 1e6 if done.returncode == 0 and done.stdout.strip() else None


def median(run: Callable[[], Any], repeats: int = 7) -> float:
    """Median seconds of a run, after one that compiles."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def copy_rate() -> float:
    """Bytes a second, read and written, of a copy in the GPU's memory."""
    x = jnp.zeros(1 << 28, jnp.float32)
    return 2 * x.nbytes / median(jax.jit(lambda: x + 1))


def stays_on_chip(steps: Any, tables: Any, x: Any, field_bytes: float) -> str:
    """What the compiled program says: how often it launches the engine, and how much memory it holds between steps."""
    compiled = gpu.compiled(steps, tables, x)
    calls = compiled.as_text().count("eqt_ffi_gpu_launch")
    held = compiled.memory_analysis().temp_size_in_bytes
    return (
        f"{calls} launch(es), {held / 2**20:.0f} MiB held, where one layer's fields are {field_bytes / 2**20:.0f} MiB"
    )


def main() -> None:
    """One row for each case and precision."""
    if why := gpu.why_unavailable():
        print(f"nothing to measure: {why}")
        return
    if gpu.emulated():
        print(f"nothing to measure: the GPU is emulated ({gpu.EMULATE})")
        return
    device, hertz, rate = jax.devices("cuda")[0], clock(), copy_rate()
    cores = getattr(device, "core_count", None)
    print(f"{device.device_kind}: {cores} multiprocessors, {(hertz or 0) / 1e9:.2f} GHz, copy {rate / 1e12:.2f} TB/s")
    print(f"{'case':<28}{'padding':>10}{'':>9}{'µs/pair':>9}{'arithmetic':>12}{'×':>6}{'memory':>9}{'×':>6}")
    rng = np.random.default_rng(0)
    for name, layers, side, readout, padding, count in CASES:
        hidden = nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1, padding=padding)
        net = nn.Sequential(*(hidden, nn.Relu()) * layers, readout, nn.Dense(1))
        program = net.lower((side, side, 3))[1]
        assert isinstance(program, Program)
        steps = plan(program)
        each = layers * side**2 * (1 if isinstance(readout, nn.Flatten) else side**2)
        pairs = count * (count + 1) // 2
        for dtype in (np.float32, np.float64):
            x = rng.standard_normal((count, side, side, 3)).astype(dtype)
            with et.precision.scope(dtype):
                tables, values = jax.device_put((tables_of(steps, program), x))
                seconds = median(lambda: gpu.jitted_kernels(steps, tables, values, None)) / pairs  # noqa: B023
                fields = 2 * x.dtype.itemsize * pairs * each / layers
                memory = 2 * fields * layers / pairs / rate
                bounds = f"{'':>18}"
                if cores and hertz and dtype == np.float32:
                    least = each * INSTRUCTIONS / (cores * LANES * hertz)
                    bounds = f"{least * 1e6:>12.2f}{seconds / least:>6.1f}"
                print(
                    f"{name:<28}{padding:>10}{np.dtype(dtype).name:>9}{seconds * 1e6:>9.2f}{bounds}"
                    f"{memory * 1e6:>9.2f}{seconds / memory:>6.2f}",
                    flush=True,
                )
                if dtype == np.float32:
                    print(f"    {stays_on_chip(steps, tables, values, fields)}")
