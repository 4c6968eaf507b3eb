"""Which engine runs, what it says, how it is stopped, and what JAX refuses to register."""

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import jax.ffi
import numpy as np
import pytest

from equitangents import kernels
from equitangents.cli import doctor as doctor_command
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError
from equitangents.groups import octahedral
from equitangents.kernels.engines import select
from equitangents.kernels.engines.cpu import run as runs
from equitangents.nn import Conv, Dense, Elementwise, Flatten, GroupPool, Relu, Sequential, SphereLift, compiled_windows

QUADRATURE = Sequential(Dense(1), Elementwise(lambda x: x + x**2), Dense(1))


@pytest.fixture
def fresh_log(monkeypatch, caplog):
    monkeypatch.setattr(select, "_logged", set())
    caplog.set_level(logging.INFO, logger="equitangents")
    return caplog


def test_the_cpu_engine_is_built_and_chosen():
    assert runs.why_unavailable() is None
    assert kernels.engines.engine_name() == "cpu"
    net = Sequential(Dense(1), Relu(), Dense(1))
    assert net.kernel(np.ones((2, 3))).engine == "cpu"
    assert net.kernel(np.ones((2, 3)), engine="reference").engine == "reference"
    assert net.kernel(np.ones((2, 3))).notes == ()


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_on_accelerators_the_reference_engine_runs(platform, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert select.engine_name() == "reference"
    found = Sequential(Dense(1), Dense(1)).kernel(np.ones((2, 5)))
    assert found.engine == "reference"
    assert f"reference engine in place of cpu: JAX runs on {platform}" in found.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "shape", "reason"),
    [
        (QUADRATURE, (3,), "no dual of Quadrature"),
        (
            Sequential(Conv(1, 3, padding="zero"), Relu(), Conv(1, 2), Flatten(), Dense(1)),
            (4, 2),
            "by pair offset only",
        ),
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
    with pytest.raises(InvalidArgumentError, match=f"'cpu'; expected an engine that runs this network; .*{reason}"):
        net.kernel(x, engine="cpu")


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


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*args: object, **more: object) -> None:
        raise RuntimeError("INVALID_ARGUMENT: wrong api version\nmore lines")

    kept = (runs.registered, runs._refused, compiled_windows._registered)
    for each in kept:
        each.cache_clear()
    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    yield
    for each in kept:
        each.cache_clear()


def test_leaves_the_reference_engine_and_one_warning(refused: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "equitangents"):
        whys = [runs.why_unavailable() for _ in range(3)]
    assert str(whys[0]).endswith("INVALID_ARGUMENT: wrong api version")
    assert (len(set(whys)), len(caplog.records)) == (1, 1)


def test_no_call_of_the_library_is_registered_then(refused: None) -> None:
    """Whoever asks for the library is told why, those of windows too."""
    with pytest.raises(RuntimeError, match="not available: JAX cannot register its calls"):
        compiled_windows._registered("outputs", np.dtype("float32").name)
    with pytest.raises(RuntimeError, match="not available: JAX cannot register its calls"):
        runs.library()


@pytest.mark.parametrize("asked", [None, "reference"])
def test_doctor_says_why_in_one_line(refused: None, asked: str | None, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(doctor_command, "ALLOWED", {})
    if asked is not None:
        monkeypatch.setenv(select.VARIABLE, asked)
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--json", str(tmp_path / "d.json")])
    told = json.loads((tmp_path / "d.json").read_text("utf-8"))["installation"]
    assert stop.value.code in (0, None)
    assert told["cpu engine"].startswith("not available: JAX cannot register its calls")
    assert told["cpu engine"].endswith("INVALID_ARGUMENT: wrong api version")
    assert told["kernel engine"].startswith("reference")
