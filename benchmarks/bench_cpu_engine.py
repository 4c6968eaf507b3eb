"""The CPU engine against the reference engine and against a bare loop of the same arithmetic (roofline.cpp).

Times are processor time of one thread: other work on the machine then changes ratios little. An element-layer is one
position at one offset through one convolution and nonlinearity, NNGP and NTK together.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rooflines import bare_loop
from equitangents import nn

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
CASES = (  # name, layers, side (0: vectors of 784 numbers), readout, N1 = N2, and for the reference engine
    ("MLP, 3 layers, d = 784", 3, 0, None, 2000, 400),
    ("flatten, 3 layers, 16×16×3", 3, 16, nn.Flatten(), 256, 32),
    ("flatten, 3 layers, 32×32×3", 3, 32, nn.Flatten(), 256, 32),
    ("flatten, 8 layers, 32×32×3", 8, 32, nn.Flatten(), 128, 16),
    ("pool, 3 layers, 16×16×3", 3, 16, nn.GlobalAvgPool(), 64, 8),
    ("pool, 8 layers, 32×32×3", 8, 32, nn.GlobalAvgPool(), 16, 2),
)


def network(layers: int, side: int, readout: nn.Layer | None) -> nn.Sequential:
    """ReLU layers, dense on vectors, convolutions of 3×3 on images."""
    hidden = nn.Conv(1, (3, 3), **WEIGHTS) if side else nn.Dense(1, **WEIGHTS)
    return nn.Sequential(*(hidden, nn.Relu()) * layers, *([readout] if readout else []), nn.Dense(1))


def shortest(run: Callable[[], object], repeats: int) -> float:
    """The least processor time of several runs, after one that compiles."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """One row for each case and precision."""
    os.environ["OMP_NUM_THREADS"] = "1"
    bare = bare_loop()
    if bare is not None:
        print(bare)
    print(f"{'case':<30}{'':>10}{'pairs/s':>12}{'el.-layers/s':>14}{'of bare':>9}{'× reference':>13}")
    rng = np.random.default_rng(0)
    for name, layers, side, readout, count, few in CASES:
        net = network(layers, side, readout)
        shape = (side, side, 3) if side else (784,)
        each = layers * max(side, 1) ** 2 * (side**2 if isinstance(readout, nn.GlobalAvgPool) else 1)
        for dtype in (np.float32, np.float64):
            x, y = (rng.standard_normal((count, *shape)).astype(dtype) for _ in range(2))
            fast = count**2 / shortest(lambda: net.kernel(x, y, engine="cpu"), 3)  # noqa: B023
            slow = few**2 / shortest(lambda: net.kernel(x[:few], y[:few], engine="reference"), 2)  # noqa: B023
            share = f"{fast * each / bare[1]:.2f}" if bare and side and dtype == np.float32 else ""
            print(
                f"{name:<30}{np.dtype(dtype).name:>10}{fast:>12.0f}{fast * each:>14.3g}{share:>9}{fast / slow:>13.1f}",
                flush=True,
            )
