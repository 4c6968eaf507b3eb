"""Networks that pool between layers: the CPU engine against the bare loop of the same arithmetic (roofline.cpp).

Times are processor time of one thread, as in `cpu_engine`. Myrtle-5 and Myrtle-7 are those of *Neural kernels without
tangents* (arXiv 2003.02237): 3×3 convolutions with zero padding, ReLU, 2×2 pools; LAP pools in blocks and then
flattens. An element-layer is one position of one fibre through one convolution and nonlinearity, at any stage.
"""

import os

import numpy as np

from benchmarks.bench_cpu_engine import shortest
from benchmarks.rooflines import bare_loop
from equitangents import nn

CONV = (nn.Conv(1, 3, padding="zero", W_std=2**0.5), nn.Relu())
TORUS = (nn.Conv(1, 3, W_std=2**0.5), nn.Relu())
POOL = (nn.AvgPool(2),)
END = (nn.Flatten(), nn.Dense(1))
NETWORKS = {
    "Myrtle-5": (nn.Sequential(*CONV * 2, *POOL, *CONV, *POOL, *CONV, *POOL * 3, *END), 8),
    "Myrtle-7": (nn.Sequential(*CONV * 2, *POOL, *CONV * 2, *POOL, *CONV * 2, *POOL * 3, *END), 8),
    "GAP, 2 layers (no pool between)": (nn.Sequential(*CONV * 2, nn.GlobalAvgPool(), nn.Dense(1)), 8),
    "pool, 2 layers, pool, on a torus": (nn.Sequential(*TORUS * 2, *POOL, *TORUS, nn.GlobalAvgPool(), nn.Dense(1)), 8),
    "LAP4, 8 layers": (nn.Sequential(*CONV * 8, nn.AvgPool(4), *END), 32),
    "LAP8, 8 layers": (nn.Sequential(*CONV * 8, nn.AvgPool(8), *END), 16),
}


def main() -> None:
    """One row for each network on images of 32×32×3, and on so few that the reference engine ends."""
    os.environ["OMP_NUM_THREADS"] = "1"
    bare = bare_loop()
    if bare is not None:
        print(bare)
    print(f"{'network':<34}{'pairs/s':>10}{'el.-layers/s':>14}{'of bare':>9}{'working MB':>12}{'× reference':>13}")
    rng = np.random.default_rng(0)
    for name, (net, count) in NETWORKS.items():
        x, y = (rng.standard_normal((n, 32, 32, 3)).astype(np.float32) for n in (count, 16))
        cost = net.kernel_cost(x.shape[1:], count, 16, engine="cpu")
        rate = cost.pairs / shortest(lambda: net.kernel(x, y, engine="cpu"), 3)  # noqa: B023
        slow = 1 / shortest(lambda: net.kernel(x[:1], y[:1], engine="reference"), 1)  # noqa: B023
        work = rate * cost.element_layers / cost.pairs
        share = f"{work / bare[1]:.2f}" if bare else ""
        memory = cost.working_bytes / 2**20
        print(f"{name:<34}{rate:>10.0f}{work:>14.3g}{share:>9}{memory:>12.0f}{rate / slow:>13.0f}", flush=True)


if __name__ == "__main__":
    main()
