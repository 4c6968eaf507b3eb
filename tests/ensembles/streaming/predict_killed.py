"""Predicts to a file in processes that are killed with kill -9: predict_killed.py FOLDER NAME.

Five die at a random write, before a file is on disk, before it gets its name, or after; one dies before the output gets
its name, and one after. The last one comes to the end. Prints how many were killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

from equitangents.ensembles import predict_to_file


def main() -> None:
    out = Path(sys.argv[1]) / sys.argv[2]
    x, rng, killed = np.load(out.with_name("x.npy")), random.Random(0), 0
    deaths = [(rng.choice(["fsync", "replace", "replaced"]), rng.randrange(1, 4), None) for _ in range(5)]
    deaths += [("rename", 1, out), ("renamed", 1, out), ("never", 0, None)]
    for place, count, target in deaths:
        child = os.fork()
        if child == 0:
            for name in ("fsync",) if place == "fsync" else ("replace", "rename"):
                die_at(name, count, place.endswith("d"), target)
            predict_to_file(out.with_name("model"), x, out, rows=5)
            os._exit(0)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(killed)


def die_at(name: str, count: int, after: bool, target: Path | None) -> None:
    """Kill this process at the so-many-th call of a function of os, of those with this target if one is given."""
    left, call = [count], getattr(os, name)

    def counting(*arguments: object) -> object:
        if target is None or Path(str(arguments[1])) == target:
            left[0] -= 1
        if left[0] == 0 and count and after:
            call(*arguments)
        if left[0] == 0 and count:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)

    setattr(os, name, counting)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of forking beside threads: none of them computes
    main()
