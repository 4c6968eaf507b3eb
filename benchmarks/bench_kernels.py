"""Kernel matrices of 8×8 images at infinite width: pairs of inputs per second."""

import time
from typing import Any

import numpy as np

import equitangents as et
from equitangents import nn

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


def networks() -> dict[str, tuple[nn.Sequential, int]]:
    """Name -> (network, number of inputs)."""
    conv = [nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu()]
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(8, 8))
    dense = [nn.Dense(1, **WEIGHTS), nn.Relu()]
    lifted = [nn.Lift(p4, 1, window=(3, 3), **WEIGHTS), nn.Relu(), nn.GroupConv(1, window=(3, 3), **WEIGHTS), nn.Relu()]
    return {
        "MLP, 3 hidden layers": (
            nn.Sequential(nn.Flatten(), *dense * 3, nn.Dense(1)),
            1000,
        ),
        "CNN, 3 convolutions, flatten": (nn.Sequential(*conv * 3, nn.Flatten(), nn.Dense(1)), 400),
        "CNN, 3 convolutions, global pool": (nn.Sequential(*conv * 3, nn.GlobalAvgPool(), nn.Dense(1)), 100),
        "GCNN (p4), 2 layers, flatten": (nn.Sequential(*lifted, nn.Flatten(), nn.Dense(1)), 200),
        "GCNN (p4), 2 layers, group pool": (nn.Sequential(*lifted, nn.GroupPool(), nn.Dense(1)), 24),
    }


def main() -> None:
    """Time each network in float32, after one run that compiles."""
    print(f"{'network':<34}{'inputs':>8}{'seconds':>10}{'pairs/s':>12}")
    for name, (network, count) in networks().items():
        x = np.random.default_rng(0).standard_normal((count, 8, 8, 3)).astype(np.float32)
        network.kernel(x)
        start = time.perf_counter()
        network.kernel(x)
        seconds = time.perf_counter() - start
        print(f"{name:<34}{count:>8}{seconds:>10.2f}{count * (count + 1) / 2 / seconds:>12.0f}", flush=True)
