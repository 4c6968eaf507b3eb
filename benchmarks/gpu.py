"""Kernels on a GPU: microseconds a pair by the reference engine there, beside the C++ engine on the processors.

    python -m benchmarks.gpu

Where JAX sees no GPU it says so, and measures nothing.
"""

import time
from collections.abc import Callable

import jax
import numpy as np

import equitangents as et

nn = et.nn
CASES = (  # name, layers, side, readout, inputs
    ("pool, 3 layers, 8×8×3", 3, 8, nn.GlobalAvgPool(), 64),
    ("pool, 3 layers, 16×16×3", 3, 16, nn.GlobalAvgPool(), 32),
    ("flatten, 8 layers, 32×32×3", 8, 32, nn.Flatten(), 128),
)
REPEATS = 5


def network(layers: int, readout: nn.Layer) -> nn.Sequential:
    """Convolutions with ReLU, a readout and a dense layer."""
    hidden = nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1)
    return nn.Sequential(*(hidden, nn.Relu()) * layers, readout, nn.Dense(1))


def median(run: Callable[[], object]) -> float:
    """Median seconds of a run, after one that compiles."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    """One row for each case and precision."""
    if jax.default_backend() != "gpu":
        print(f"nothing to measure: JAX runs on {jax.default_backend()} here and sees no GPU")
        return
    print(f"{jax.devices()[0].device_kind}; µs a pair, medians of {REPEATS} runs")
    print(f"{'case':<30}{'':>9}{'reference':>12}{'cpu':>10}")
    rng = np.random.default_rng(0)
    for name, layers, side, readout, count in CASES:
        net, pairs = network(layers, readout), count * (count + 1) // 2
        for dtype in (np.float32, np.float64):
            x = rng.standard_normal((count, side, side, 3)).astype(dtype)
            each = [median(lambda: net.kernel(x, engine=e)) / pairs * 1e6 for e in ("reference", "cpu")]  # noqa: B023
            print(f"{name:<30}{np.dtype(dtype).name:>9}{each[0]:>12.2f}{each[1]:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
