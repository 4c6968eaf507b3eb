"""Factorises in processes that are killed with kill -9, each at a random write: killed_factors.py FOLDER KILLS.

The kill comes before a tile is on disk, before it gets its name, or after. Prints how many processes were killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from pathlib import Path

from problems import positive, targets

from equitangents import solvers

SIZE, TILE = 22, 4


def factorise(folder: Path) -> solvers.Solution:
    """(Θ + δ)⁻¹ Y by a factor in `folder`, of 21 tiles."""
    how = solvers.OutOfCore(path=folder, tile=TILE)
    return solvers.solve(positive(SIZE, 1e3), targets(SIZE, 2), ridge=1e-3, solver=how)


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    rng, killed = random.Random(0), 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            die_at(rng.randrange(1, 4), rng.choice(["fsync", "replace", "replaced"]))
            factorise(folder)
            os._exit(0)
        rng.random(), rng.random()  # the child's draws are not those of the next one
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(killed)


def die_at(count: int, place: str) -> None:
    """Kill this process at its so-many-th write."""
    left, name = [count], "fsync" if place == "fsync" else "replace"
    call = getattr(os, name)

    def counting(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0 and place == "replaced":
            call(*arguments)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)

    setattr(os, name, counting)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of forking beside threads: none of them computes
    main()
