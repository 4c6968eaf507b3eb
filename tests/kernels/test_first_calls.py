"""The first call in a process, traced or not, from one thread or several, gives the numbers of every later one."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from equitangents import groups, nn

GRID = nn.Sequential(nn.Conv(1, 3, b_std=0.1), nn.Relu(), nn.Conv(1, 2), nn.Erf(), nn.Flatten(), nn.Dense(1))
ROTATIONS = nn.Sequential(nn.SphereLift(groups.octahedral(), 3, resolution=2), nn.Relu(), nn.GroupPool(), nn.Dense(1))


@pytest.mark.parametrize(("net", "shape"), [(GRID, (5, 4, 2)), (ROTATIONS, (4, 2))], ids=["grid", "rotations"])
def test_threads_that_share_the_compiled_engine_get_the_kernels_of_one(net, shape, rng):
    inputs = [rng.standard_normal((n, *shape)) for n in (31, 7, 18, 1, 40, 12, 25, 3)]
    alone = [net.kernel(x, engine="cpu") for x in inputs]
    with ThreadPoolExecutor(len(inputs)) as threads:
        together = list(threads.map(lambda x: net.kernel(x, engine="cpu"), inputs * 4))
    for found, expected in zip(together, alone * 4, strict=True):
        np.testing.assert_array_equal(found.nngp, expected.nngp)
        np.testing.assert_array_equal(found.ntk, expected.ntk)


TRACED_FIRST = """
import jax, numpy as np
from equitangents import nn
net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.Flatten(), nn.Dense(1))
x = np.random.default_rng(0).standard_normal((3, 4, 2)).astype("float32")
traced = jax.jit(lambda x: net.kernel(x).ntk)(x)
concrete = net.kernel(x)
assert concrete.engine == "cpu", concrete
np.testing.assert_allclose(traced, concrete.ntk, rtol=2e-6)
params = jax.jit(lambda key: net.init(key, (4, 2)))(jax.random.key(0))
for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(net.init(jax.random.key(0), (4, 2)))):
    np.testing.assert_allclose(one, other, rtol=1e-6)
"""


@pytest.mark.slow
def test_a_traced_call_may_come_before_any_concrete_one():
    done = subprocess.run([sys.executable, "-c", TRACED_FIRST], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
