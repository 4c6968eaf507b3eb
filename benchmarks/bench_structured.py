"""Missing positions, graphs and attention: the CPU engine against the reference engine.

Times are processor time of one thread. Both run over all pairs of positions in double precision. Half of the positions
are missing on average where there is a mask, and a tenth of the pairs of nodes are joined.
"""

import os

import numpy as np

import equitangents as et
from benchmarks.bench_cpu_engine import WEIGHTS, shortest
from equitangents import nn

CONV = (nn.Conv(1, 3, padding="zero", **WEIGHTS), nn.Relu())
DENSE = (nn.Dense(1, **WEIGHTS), nn.Relu())
PASS = (nn.Aggregate(), *DENSE)
HEAD = (nn.Attention(1), *DENSE)
END = (nn.GlobalAvgPool(), nn.Dense(1))
NETWORKS = {
    "masked line of 24, 3 Conv": ((24, 16), nn.Sequential(*CONV * 3, *END), True, False),
    "masked image 8×8, 3 Conv": ((8, 8, 3), nn.Sequential(*CONV * 3, *END), True, False),
    "masked set of 24, 3 Dense": ((24, 16), nn.Sequential(*DENSE * 3, *END), True, False),
    "graphs of 24 nodes, 3 Aggregate": ((24, 16), nn.Sequential(*PASS * 3, *END), True, True),
    "attention of 24, 3 layers": ((24, 16), nn.Sequential(*DENSE, *HEAD * 3, *END), False, False),
    "attention of 24, masked": ((24, 16), nn.Sequential(*DENSE, *HEAD * 3, *END), True, False),
}
MANY, FEW = 64, 24


def inputs(shape: tuple[int, ...], masked: bool, graphs: bool) -> et.structured.Inputs:
    """Random inputs, all of them padded to one shape."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((MANY, *shape))
    if not masked:
        return x
    mask = rng.random(x.shape[:-1]) < 0.5
    if not graphs:
        return et.Masked(x, mask)
    return et.Graphs(x, (rng.random((MANY, shape[0], shape[0])) < 0.1).astype(float), mask)


def main() -> None:
    """One row for each network, of kernels between different inputs."""
    os.environ["OMP_NUM_THREADS"] = "1"
    print(f"{'inputs and network':<34}{'pairs/s':>10}{'reference':>12}{'ratio':>8}")
    for name, (shape, net, masked, graphs) in NETWORKS.items():
        x = inputs(shape, masked, graphs)
        fast = MANY**2 / shortest(lambda: net.kernel(x, x[::-1], engine="cpu"), 3)  # noqa: B023
        slow = FEW**2 / shortest(lambda: net.kernel(x[:FEW], x[-FEW:], engine="reference"), 2)  # noqa: B023
        print(f"{name:<34}{fast:>10.0f}{slow:>12.0f}{fast / slow:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
