"""Results that cannot fit in memory are refused."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import memory, nn
from equitangents.errors import MemoryLimitError
from equitangents.kernels import result
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run
from equitangents.nn import Dense, Erf, Flatten, GroupPool, Relu, Sequential, SphereLift

MANY = 400_000  # inputs, whose kernels take more than a terabyte
MLP = Sequential(Flatten(), Dense(1), Relu(), Dense(1))
SPHERE = Sequential(SphereLift(et.groups.so3(2), 1), Erf(), GroupPool(), Dense(1))


def copies(shape, dtype=np.float32, n=MANY):
    """n inputs that take the memory of one."""
    return np.broadcast_to(np.ones((1, *shape), dtype), (n, *shape))


def leave(monkeypatch, left):
    """Leave the process so many bytes beside what it holds, which it is to hold none of."""
    monkeypatch.setattr(memory, "_inherited", lambda: ((memory._RESIDENT, left),))
    monkeypatch.setattr(memory, "_own_limits", lambda: iter(()))
    monkeypatch.setattr(memory, "_held", lambda: (0, 0, 0))


WAYS = {
    "engine": (MLP.kernel, (4, 4, 1)),
    "reference": (lambda x: MLP.kernel(x, engine="reference"), (4, 4, 1)),
    "rotations": (SPHERE.kernel, (4, 1)),
    "orbit average": (et.kernels.orbit_average(MLP, et.actions.image_rotations(4)).kernel, (4, 4, 1)),
    "fit": (lambda x: et.InfiniteEnsemble(MLP, solver="eigh").fit(x, np.zeros(len(x))), (4, 4, 1)),
    "classifier": (
        lambda x: et.InfiniteEnsembleClassifier(MLP, solver="eigh").fit(x, np.arange(len(x)) % 2),
        (4, 4, 1),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_kernels_that_cannot_fit_are_refused_with_a_remedy(way):
    run, shape = WAYS[way]
    with pytest.raises(MemoryLimitError, match=r"TB.*(fewer inputs at a time|fewer samples)"):
        run(copies(shape))


def test_a_result_is_refused_exactly_where_it_exceeds_the_memory(monkeypatch):
    x, y = copies((2,), n=100), copies((2,), n=30)
    needed = 2 * 100 * 30 * 4 + 500
    for limit, refused in ((needed, False), (needed - 1, True)):
        leave(monkeypatch, limit)
        if refused:
            with pytest.raises(MemoryLimitError):
                result.check_result(x, y, np.float32, 500)
        else:
            result.check_result(x, y, np.float32, 500)


def test_jax_results_are_copies_and_count_twice(monkeypatch):
    leave(monkeypatch, 3 * 10**4)
    x = copies((2,), n=50)  # two matrices of 50² float32 numbers are 20 kB
    result.check_result(x, None, np.float32, 0)
    with pytest.raises(MemoryLimitError):
        result.check_result(jax.numpy.asarray(x), None, np.float32, 0)


def test_a_covariance_of_too_many_inputs_is_refused(rng):
    model = et.InfiniteEnsemble(MLP, time=1.0).fit(rng.standard_normal((6, 4, 4, 1)), rng.standard_normal(6))
    with pytest.raises(MemoryLimitError, match="fewer inputs at once, or for return_std"):
        model.predict(copies((4, 4, 1), np.float64), return_cov=True)


def test_traced_results_are_refused_while_they_are_traced():
    with pytest.raises(MemoryLimitError, match="TB"):
        jax.eval_shape(lambda x: MLP.kernel(x).ntk, jax.ShapeDtypeStruct((MANY, 2, 2, 1), np.float32))


def test_estimates_of_finite_networks_are_refused(monkeypatch):
    net = Sequential(Dense(8), Relu(), Dense(10))
    params = net.init(jax.random.key(0), (4,))
    with pytest.raises(MemoryLimitError, match="empirical kernel of 400000 × 400000"):
        et.kernels.empirical(net, params, copies((4,)))
    with pytest.raises(MemoryLimitError, match="Monte Carlo estimate"):
        et.kernels.monte_carlo(net, copies((4,)), key=jax.random.key(0), samples=2)


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


STATUS = Path("/proc/self/status")
linux = pytest.mark.skipif(not STATUS.exists(), reason="the addresses that a process holds are read from /proc")
NET = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))


@contextmanager
def addresses_left(left):
    """So many bytes of addresses beyond those that this process holds."""
    import resource

    held = next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith("VmSize"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@linux
def test_threads_that_find_no_room_for_their_stacks_are_done_without(rng, monkeypatch):
    x = rng.standard_normal((60, 10, 10, 3))
    plan = engine_of("cpu").plan(NET.lower(x.shape[1:])[1])
    wanted = run.kernels(plan, x, None)
    monkeypatch.setattr(run, "threads", lambda: 64)
    with addresses_left(48 << 20):  # stacks take 8 MiB each
        found = run.kernels(plan, x, None)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@linux
def test_results_that_find_no_room_are_an_error_that_says_how_much_they_take(rng):
    x = rng.standard_normal((4000, 3))
    plan = engine_of("cpu").plan(nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1)).lower((3,))[1])
    with addresses_left(48 << 20), pytest.raises(MemoryLimitError, match=r"256 MB of its results.*fewer inputs"):
        run.kernels(plan, x, None)


def test_memory_of_a_result_is_used_again_once_nobody_holds_it():
    (first, other), where = run.results((600, 600), np.dtype(float)), lambda *arrays: [v.ctypes.data for v in arrays]
    (kept,), view = where(first), first[3:]
    del first
    later = run.results((600, 600), np.dtype(float))
    assert kept not in where(*later, other)
    del view
    assert kept in where(*run.results((600, 600), np.dtype(float)))


SCRIPT = """
import os, resource, sys
import numpy as np
from equitangents import nn
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run
net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
x = np.random.default_rng(0).standard_normal((60, 10, 10, 3))
plan = engine_of("cpu").plan(net.lower(x.shape[1:])[1])
run.threads = lambda: 1
wanted = run.kernels(plan, x, None)
run._WATCH_FROM = 0  # so that a thread of Python's is wanted, too
if os.geteuid() == 0:
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
for threads in (2, 3, 16):
    run.threads = lambda: threads
    found = run.kernels(plan, x, None)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted))
print("same")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as processes")
def test_without_further_processes_the_engine_goes_on_alone():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr
