"""The CPU engine where the system gives it no threads or no memory: the same numbers by fewer threads, or an error."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from equitangents import nn
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run

resource = pytest.importorskip("resource")
STATUS = Path("/proc/self/status")
linux = pytest.mark.skipif(not STATUS.exists(), reason="the addresses that a process holds are read from /proc")
NET = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))


@contextmanager
def addresses_left(left):
    """So many bytes of addresses beyond those that this process holds."""
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
    plan = engine_of("cpu").steps(NET.lower(x.shape[1:])[1])
    wanted = run.kernels(plan, x, None)
    monkeypatch.setattr(run, "threads", lambda: 64)
    with addresses_left(48 << 20):  # stacks take 8 MiB each
        found = run.kernels(plan, x, None)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@linux
def test_results_that_find_no_room_are_an_error_that_says_how_much_they_take(rng):
    x = rng.standard_normal((4000, 3))
    plan = engine_of("cpu").steps(nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1)).lower((3,))[1])
    with addresses_left(48 << 20), pytest.raises(MemoryLimitError, match=r"256 MB of its results.*fewer inputs"):
        run.kernels(plan, x, None)


SCRIPT = """
import os, resource, sys
import numpy as np
from equitangents import nn
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run
net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
x = np.random.default_rng(0).standard_normal((60, 10, 10, 3))
plan = engine_of("cpu").steps(net.lower(x.shape[1:])[1])
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
