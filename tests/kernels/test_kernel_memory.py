"""Peak memory is inputs + results + 300 MB at most, whatever the number of pairs, and no more than was estimated."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import resource
import numpy as np
import equitangents as et
from equitangents.nn import *
rng = np.random.default_rng(0)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def images(n, side, channels=1):
    return rng.standard_normal((n, side, side, channels), dtype=np.float32)
"""
# Each: what is computed once small, the inputs, the run, its estimate, and the megabytes of the obvious way to do it.
CASES = {
    "pooled, cpu": (
        "net = Sequential(*[Conv(1, 3), Relu()] * 2, GlobalAvgPool(), Dense(1))",
        "x = images(40, 24, 3)",
        "net.kernel(x, x.copy(), engine='cpu')",
        "net.kernel_cost((24, 24, 3), 40, 40, engine='cpu')",
        40**2 * 24**4 * 4 / 2**20,
    ),
    "flattened, cpu": (
        "net = Sequential(*[Conv(1, 3), Relu()] * 8, Flatten(), Dense(1))",
        "x = images(2000, 32)",
        "net.kernel(x[:100], x, engine='cpu')",
        "net.kernel_cost((32, 32, 1), 100, 2000, engine='cpu')",
        100 * 2000 * 32**2 * 4 / 2**20,
    ),
    "flattened, reference": (
        "net = Sequential(*[Conv(1, 3), Relu()] * 4, Flatten(), Dense(1))",
        "x = images(16000, 16)",
        "net.kernel(x[:12], x, engine='reference')",
        "net.kernel_cost((16, 16, 1), 12, 16000, engine='reference')",
        16000 * 16**2 * 27 * 4 / 2**20,
    ),
    "translations by FFT": (
        "net = Sequential(Flatten(), *[Dense(1), Relu()] * 3, Dense(1));"
        "net = et.kernels.orbit_average(net, et.actions.translations((32, 32)))",
        "x = images(300, 32)",
        "net.kernel(x)",
        "net.kernel_cost((32, 32, 1), 300)",
        300**2 * 32**2 * 8 / 2**20,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_peak_memory(name):
    net, x, run, estimate, naive = CASES[name]
    assert naive > 400
    small = run.replace("x", "y")
    few = f"y = {x.removeprefix('x = ')}[:48]\n{small}"
    program = f"{PRELUDE}\n{net}\n{few}\ncost = {estimate}\n{x}\nbefore = peak()\nk = {run}\nafter = peak()\n"
    program += "print(after - before, cost.memory / 2**20, (k.nngp.nbytes + k.ntk.nbytes) / 2**20)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    grown, estimated, outputs = map(float, done.stdout.split())
    assert grown <= outputs + 300
    assert grown <= estimated + 48  # what allocators keep
