"""Runs a study of five stages in processes that are killed with kill -9, each at a random write.

Arguments: FOLDER KILLS.

The kill comes before a file is on disk, before it gets its name, or after. Prints how many processes were killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import warnings
from pathlib import Path

import jax  # noqa: F401  what every child would otherwise import for itself

from studies.small import five_stages

WRITES = 14  # of files in one run: the configuration after every stage and at both ends, stages, table, verdicts, page


def main() -> None:
    out, kills = Path(sys.argv[1]), int(sys.argv[2])
    rng, killed = random.Random(0), 0
    for _ in range(kills):
        count, place = rng.randrange(1, WRITES), rng.choice(["fsync", "replace", "replaced"])
        child = os.fork()
        if child == 0:
            die_at(count, place)
            with contextlib.redirect_stdout(None):
                finished = (out / "report.html").exists()
                five_stages(out, resume=(out / "config.json").exists() and not finished, force=finished)
            os._exit(0)
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
