"""Kernel fields against pooled kernels of the same layers: the same position against Flatten, all pairs against GAP.

Times are processor time of one thread, as in `cpu_engine`. "× pooled" is the field's time over the pooled kernel's,
"less writing" without the time that writing as many numbers takes: copying the result into memory as results have it.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench_cpu_engine import shortest
from equitangents import nn
from equitangents.kernels.engines.cpu.result_memory import RESULTS

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
CASES = (  # name, layers, padding, side, inputs on each side at the same position and at all pairs
    ("2 layers, 16×16×3, circular", 2, "circular", 16, 128, 16),
    ("2 layers, 16×16×3, zero", 2, "zero", 16, 128, 16),
    ("3 layers, 32×32×3, circular", 3, "circular", 32, 64, 8),
    ("3 layers, 32×32×3, zero", 3, "zero", 32, 64, 8),
    ("8 layers, 32×32×3, circular", 8, "circular", 32, 32, 4),
)

_ROUNDS = 15


def compared(field: Callable[[], object], pooled: Callable[[], object], writing: Callable[[], object]) -> str:
    """One row's figures: milliseconds of all three, the shortest of rounds that take turns, and the ratios."""
    rounds = [[shortest(run, 1) for run in (field, pooled, writing)] for _ in range(_ROUNDS)]
    times = [min(each) for each in zip(*rounds, strict=True)]
    ratio, without = times[0] / times[1], (times[0] - times[2]) / times[1]
    return "".join(f"{1e3 * t:>13.1f}" for t in times) + f"{ratio:>13.2f}{without:>13.2f}"


def written(values: np.ndarray) -> np.ndarray:
    """A copy, into memory as results have it."""
    found = RESULTS.array(values.shape, values.dtype)
    found[...] = values
    return found


def main() -> None:
    """Two rows for each case and precision: the same position, and all pairs of positions."""
    os.environ["OMP_NUM_THREADS"] = "1"
    head = ("field, ms", "pooled, ms", "write, ms", "× pooled", "less writing")
    print(f"{'case':<30}{'':>9}{'positions':>11}" + "".join(f"{title:>13}" for title in head))
    rng = np.random.default_rng(0)
    for name, layers, padding, side, same, whole in CASES:
        body = (nn.Conv(1, (3, 3), padding=padding, **WEIGHTS), nn.Relu()) * layers
        net, flat, gap = (nn.Sequential(*body, *end) for end in ((), (nn.Flatten(),), (nn.GlobalAvgPool(),)))
        for dtype in (np.float32, np.float64):
            for positions, pooled, count in (("same", flat, same), ("all", gap, whole)):
                x, y = (rng.standard_normal((count, side, side, 3)).astype(dtype) for _ in range(2))
                field = net.kernel_field(x, y, positions, engine="cpu")
                figures = compared(
                    lambda: net.kernel_field(x, y, positions, engine="cpu"),  # noqa: B023
                    lambda: pooled.kernel(x, y, engine="cpu"),  # noqa: B023
                    lambda: [written(np.asarray(values)) for values in (field.nngp, field.ntk)],  # noqa: B023
                )
                print(f"{name:<30}{np.dtype(dtype).name:>9}{positions:>11}{figures}", flush=True)


if __name__ == "__main__":
    main()
