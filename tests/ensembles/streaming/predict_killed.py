"""Predicts to a file in processes that are killed: ensembles.streaming.predict_killed FOLDER NAME.

Five die at a random write; one dies before the output gets its name, and one after. The last one comes to the end.
"""

import random
import sys
from pathlib import Path

import numpy as np

import kills
from equitangents.ensembles import predict_to_file

if __name__ == "__main__":
    out, rng = Path(sys.argv[1]) / sys.argv[2], random.Random(0)
    x = np.load(out.with_name("x.npy"))
    deaths = [kills.Death.drawn(rng, 3) for _ in range(5)]
    deaths += [kills.Death(kills.NAMES, 1, after, target=out) for after in (False, True)]
    print(kills.killed(lambda: predict_to_file(out.with_name("model"), x, out, rows=2), [*deaths, kills.Death()]))
