"""Forecasts of `kernel_cost` beside what runs then take, and their memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import equitangents as et
from equitangents import nn

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


def cases() -> dict[str, tuple[Any, tuple[int, ...], int]]:
    """Name -> (anything with kernels and their costs, shape of an input, number of inputs)."""
    conv, dense = [nn.Conv(1, 3, **WEIGHTS), nn.Relu()], [nn.Dense(1, **WEIGHTS), nn.Relu()]
    zero = [nn.Conv(1, 3, padding="zero"), nn.Erf(), nn.Conv(1, 5, padding="zero"), nn.Gelu()]
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(8, 8))
    lifted = [nn.Lift(p4, 1, window=(2, 3)), nn.Relu(), nn.GroupConv(1, window=(2, 3)), nn.Relu()]
    mlp = nn.Sequential(nn.Flatten(), *dense * 3, nn.Dense(1))
    rotations = [nn.SphereLift(et.groups.so3(4), 1, b_std=0.1, resolution=8), nn.Erf(), nn.GroupConv(1), nn.Erf()]
    finite = [nn.SphereLift(et.groups.icosahedral(), 1, b_std=0.1), nn.Erf()]
    narrow = [nn.SphereLift(et.groups.so3(3), 1, window=lambda t: np.exp(4 * (t - 1)), resolution=4), nn.Erf()]
    pooled = nn.Sequential(*conv, nn.AvgPool(2), *conv, nn.Flatten(), nn.Dense(1))
    return {
        "MLP": (nn.Sequential(*dense * 3, nn.Dense(1)), (784,), 1500),
        "CNN, flatten": (nn.Sequential(*conv * 4, nn.Flatten(), nn.Dense(1)), (32, 32, 3), 200),
        "CNN, pool": (nn.Sequential(*conv * 3, nn.GlobalAvgPool(), nn.Dense(1)), (16, 16, 3), 48),
        "CNN, pool, zero padding": (nn.Sequential(*zero, nn.GlobalAvgPool(), nn.Dense(1)), (12, 12, 3), 48),
        "CNN, pooling inside": (pooled, (8, 8, 3), 12),
        "p4, 2×3 windows": (nn.Sequential(*lifted, nn.GroupPool(), nn.Dense(1)), (8, 8, 3), 24),
        "SO(3)": (nn.Sequential(*rotations, nn.GroupPool(), nn.Dense(1)), (16, 10), 200),
        "SO(3), narrow windows": (nn.Sequential(*narrow, nn.GroupPool(), nn.Dense(1)), (9, 1), 24),
        "icosahedral group": (nn.Sequential(*finite, nn.GroupPool(), nn.Dense(1)), (36, 10), 600),
        "MLP over translations": (
            et.kernels.orbit_average(mlp, et.actions.translations((32, 32))),
            (32, 32, 3),
            128,
        ),
        "MLP over p4m": (
            et.kernels.orbit_average(mlp, et.actions.grid(et.groups.wallpaper(4, True, (16, 16)))),
            (16, 16, 3),
            64,
        ),
    }


def main() -> None:
    """One row for each case and precision; processor time would be steadier, but users wait for the clock."""
    print(f"{'case':<28}{'':>9}{'forecast s':>12}{'within':>8}{'took s':>9}{'ratio':>7}{'memory MB':>11}")
    for name, (net, shape, n) in cases().items():
        for dtype in ("float32", "float64"):
            x = np.random.default_rng(0).standard_normal((n, *shape)).astype(dtype)
            net.kernel(x)
            cost = net.kernel_cost(shape, n, dtype=dtype)
            start = time.perf_counter()
            net.kernel(x)
            took = time.perf_counter() - start
            print(
                f"{name:<28}{dtype:>9}{cost.seconds:>12.3f}{cost.uncertainty:>7.1f}×{took:>9.3f}"
                f"{cost.seconds / took:>7.2f}{cost.memory / 1e6:>11.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
