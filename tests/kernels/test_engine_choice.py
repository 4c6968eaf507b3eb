"""Which engine runs, what it says, how it is stopped, and how much memory it takes."""

import logging
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from equitangents import kernels
from equitangents.errors import InvalidArgumentError
from equitangents.groups import octahedral
from equitangents.kernels.engines import cpu, select
from equitangents.nn import Conv, Dense, Elementwise, Flatten, GroupPool, Relu, Sequential, SphereLift

QUADRATURE = Sequential(Dense(1), Elementwise(lambda x: x + x**2), Dense(1))


@pytest.fixture
def fresh_log(monkeypatch, caplog):
    monkeypatch.setattr(select, "_logged", set())
    caplog.set_level(logging.INFO, logger="equitangents")
    return caplog


def test_the_cpu_engine_is_built_and_chosen():
    assert cpu.why_unavailable() is None
    assert kernels.engines.engine_name() == "cpu"
    net = Sequential(Dense(1), Relu(), Dense(1))
    assert net.kernel(np.ones((2, 3))).engine == "cpu"
    assert net.kernel(np.ones((2, 3)), engine="reference").engine == "reference"
    assert net.kernel(np.ones((2, 3))).notes == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "shape", "reason"),
    [
        (QUADRATURE, (3,), "no dual of Quadrature"),
        (Sequential(Conv(1, 3, padding="zero"), Relu(), Conv(1, 2), Flatten(), Dense(1)), (4, 2), "along fibres only"),
        (
            Sequential(SphereLift(octahedral(), 1, resolution=3), Elementwise(lambda x: x + x**2), GroupPool()),
            (4, 1),
            "no dual of Quadrature",
        ),
    ],
    ids=["quadrature", "pairs", "rotations"],
)
def test_what_it_cannot_run_goes_to_the_reference_with_one_word(net, shape, reason, fresh_log, rng):
    x = rng.standard_normal((2, *shape))
    for _ in range(2):
        result = net.kernel(x)
        assert result.engine == "reference"
        assert any(reason in note for note in result.notes)
    assert len([r for r in fresh_log.records if reason in r.message]) == 1
    with pytest.raises(InvalidArgumentError, match=f"'cpu', which cannot run this network: .*{reason}"):
        net.kernel(x, engine="cpu")


def test_without_a_library_the_reference_runs_and_says_why(monkeypatch, fresh_log):
    monkeypatch.setattr(cpu, "why_unavailable", lambda: "it was not built")
    net = Sequential(Dense(1), Relu(), Dense(1))
    result = net.kernel(np.ones((2, 3)))
    assert (result.engine, kernels.engines.engine_name()) == ("reference", "reference")
    assert "it was not built" in result.notes[0]
    with pytest.raises(InvalidArgumentError, match="engine is 'cpu', which is not available: it was not built"):
        net.kernel(np.ones((2, 3)), engine="cpu")


LONG = """
import signal, time
import jax
import jax.numpy as jnp
import numpy as np
from equitangents import groups
from equitangents.nn import *
rng = np.random.default_rng(0)
images = lambda: rng.standard_normal((400, 32, 32, 3)).astype(np.float32)
conv = Sequential(*[Conv(1, 3), Relu()] * 4, GlobalAvgPool(), Dense(1))
{prepare}
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
print("start", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("stopped", flush=True)
{after}
"""
CALLED = ("x = images()", "conv.kernel(x, engine='cpu')", "")
ON_ROTATIONS = (
    "net = Sequential(SphereLift(groups.so3(6), 1, resolution=24), Erf(), GroupPool(), Dense(1))\n"
    "x = rng.standard_normal((4000, 36, 4)).astype(np.float32)",
    "net.kernel(x, engine='cpu')",
    "",
)
TRACED = (
    """x = jnp.asarray(images())
kernel = jax.jit(lambda a: conv.kernel(a, engine="cpu").ntk.sum())
compiled = kernel.lower(x).compile()
def run():
    try:
        compiled(x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        assert "the CPU engine was interrupted" in str(error)
        time.sleep(10)  # Python's own signal is still to come""",
    "run()",
    "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    "kernel(x[:2]).block_until_ready()  # the next call runs",
)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [CALLED, ON_ROTATIONS, TRACED], ids=["called", "rotations", "traced"])
def test_ctrl_c_stops_it(parts):
    program = LONG.format(**dict(zip(("prepare", "call", "after"), parts, strict=True)))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "start\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert process.stdout.readline() == "stopped\n"
    assert time.monotonic() - begun < 5  # about 0.2 s on an idle machine
    process.stdout.close()
    assert process.wait() == 0


MEMORY = """
import resource
import numpy as np
from equitangents.nn import *
net = Sequential(*[Conv(1, 3), Relu()] * 8, Flatten(), Dense(1))
rng = np.random.default_rng(0)
net.kernel(rng.standard_normal((2, 32, 32, 3)).astype(np.float32), engine="cpu")
x = rng.standard_normal((3000, 32, 32, 3), dtype=np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
k = net.kernel(x[:40], x, engine="cpu")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_inputs():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 300
