"""Computes a store in processes that are killed, each at a random write: scale.killed FOLDER ROWS TILE KILLS."""

import random
import sys
from pathlib import Path

import zarr  # noqa: F401  once, and not in each process

import kills
from scale.stores import store

if __name__ == "__main__":
    folder, (rows, tile, number) = Path(sys.argv[1]), map(int, sys.argv[2:])
    most = max(1, 3 * (4 * (rows // tile) ** 2 // 2) // (2 * number) - 1)
    rng = random.Random(0)
    deaths = [kills.Death.drawn(rng, most) for _ in range(number)]
    print(kills.killed(lambda: store(folder, rows, tile).compute(), deaths))
