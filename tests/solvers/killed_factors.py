"""Factorises in processes that are killed, each at a random write: solvers.killed_factors FOLDER KILLS."""

import random
import sys
from pathlib import Path

import zarr  # noqa: F401  once, and not in each process

import kills
from solvers.problems import factorise

if __name__ == "__main__":
    rng, folder = random.Random(0), Path(sys.argv[1])
    print(kills.killed(lambda: factorise(folder), (kills.Death.drawn(rng, 3) for _ in range(int(sys.argv[2])))))
