"""What is kept between the calls of a network is what nothing but the network says: all else counts in every call."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import jax
import numpy as np
import pytest

from equitangents import groups, memory, nn
from equitangents.errors import InvalidArgumentError, MemoryLimitError, NotFiniteError
from equitangents.kernels.engines import engine_name, engine_of, register, unregister
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.engines.reference.engine import ReferenceEngine
from equitangents.kernels.plans import plan
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Relu, Sequential

NET = Sequential(Conv(1, 3, b_std=0.1), Relu(), Flatten(), Dense(1))


@pytest.fixture
def x(rng):
    return rng.standard_normal((6, 8, 2))


def test_an_engine_that_is_lost_or_comes_later_counts_from_then_on(x, monkeypatch):
    class Later(ReferenceEngine):
        name = "later"

    NET.kernel(x)
    with monkeypatch.context() as now:
        now.setattr(run, "why_unavailable", lambda: "it was not built")
        lost = NET.kernel(x)
        assert lost.engine == "reference"
        assert "it was not built" in lost.notes[0]
        assert engine_name() == "reference"
        with pytest.raises(
            InvalidArgumentError, match="engine is 'cpu'; expected an available engine; it was not built"
        ):
            NET.kernel(x, engine="cpu")
    assert NET.kernel(x).notes == ()
    later = Later()
    register(later)
    try:
        assert NET.kernel(x, engine="later").engine == "later"
    finally:
        unregister(later)
    with pytest.raises(InvalidArgumentError, match="engine is 'later'; expected"):
        NET.kernel(x, engine="later")


def test_memory_is_what_is_left_at_the_time(monkeypatch):
    many = np.random.default_rng(0).standard_normal((300, 8, 2))
    NET.kernel(many)
    with monkeypatch.context() as now:
        now.setattr(memory, "_inherited", lambda: ((memory._RESIDENT, 10**6),))
        now.setattr(memory, "_own_limits", lambda: iter(()))
        now.setattr(memory, "_held", lambda: (0, 0, 0))
        with pytest.raises(MemoryLimitError, match="300 × 300 inputs"):
            NET.kernel(many)
    NET.kernel(many)


def test_threads_are_those_of_the_environment_at_the_time(x, monkeypatch):
    asked = []
    inner = run._Problem
    monkeypatch.setattr(run, "_Problem", lambda **given: asked.append(given["threads"]) or inner(**given))
    program = NET.lowered(x)[1]
    held = []
    for threads in (1, 3, 1):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        NET.kernel(x)
        held.append(engine_of("cpu").working_bytes(program, 2, 6, 6, 8))
    assert [number for number, _ in groupby(asked)] == [1, 3, 1]
    assert held[0] == held[2] < held[1]


def test_precision_and_kind_of_arrays_are_those_of_the_call(x):
    traced = jax.jit(lambda y: NET.kernel(y).ntk)
    single, double = NET.kernel(x.astype(np.float32)).ntk, NET.kernel(x).ntk
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, rtol=1e-4)
    of_jax = NET.kernel(jax.numpy.asarray(x, np.float32)).ntk
    assert isinstance(of_jax, jax.Array)
    np.testing.assert_array_equal(of_jax, single)
    np.testing.assert_allclose(traced(x.astype(np.float32)), single, rtol=1e-5)
    with jax.enable_x64(True):
        inside = NET.kernel(x).ntk
        assert NET.kernel(jax.numpy.asarray(x)).ntk.dtype == np.float64
    np.testing.assert_array_equal(inside, double)
    np.testing.assert_array_equal(NET.kernel(x, engine="reference").ntk.dtype, np.float64)
    with jax.numpy_rank_promotion("raise"):
        assert NET.kernel(x, engine="reference").ntk.dtype == np.float64


def test_inputs_are_checked_in_every_call(x):
    NET.kernel(x)
    broken = x.copy()
    broken[2, 3, 1] = np.nan
    for _ in range(2):
        with pytest.raises(NotFiniteError, match=r"x1 holds NaN or infinite values, the first at index \(2, 3, 1\)"):
            NET.kernel(broken)
    for scale in (1.0, 1e-150, 1.0, 1e90, 0.0):
        y = x.copy()
        y[0] *= scale
        assert np.isfinite(NET.kernel(y).ntk).all()


def test_inputs_that_cannot_be_written_to_and_those_with_gaps_are_read_as_others(x):
    wanted = NET.kernel(x, x[:2]).ntk
    fixed, gaps, turned = x.copy(), np.zeros((12, 8, 2))[::2], np.asfortranarray(x)
    fixed.setflags(write=False)
    gaps[:] = x
    shared, _ = np.broadcast_arrays(x, np.zeros(1))  # NumPy warns who asks to write to these
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (fixed, gaps, turned, shared):
            np.testing.assert_array_equal(NET.kernel(y, y[:2]).ntk, wanted)


@pytest.mark.slow
def test_networks_of_equal_layers_and_other_widths_of_inputs_have_their_own(rng):
    for channels in (2, 3, 2):
        y = rng.standard_normal((3, 8, channels))
        for net in (NET, Sequential(*NET.layers), Sequential(Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))):
            ours, theirs = net.kernel(y), net.kernel(y, engine="reference")
            np.testing.assert_allclose(ours.ntk, theirs.ntk, rtol=1e-12)


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


@pytest.mark.parametrize("n2", [None, 3, 20])
def test_kernels_that_no_number_can_hold_are_refused_by_the_engine_wherever_they_are(n2):
    net = Sequential(Dense(1, W_std=1e18), Relu(), Dense(1, W_std=1e18))
    program = net.lowered(np.ones((1, 3), np.float32))[1]
    x = np.full((20, 3), 1e-20, np.float32)
    y = None if n2 is None else x[:n2].copy()
    nngp, _ = engine_of("cpu").kernels(program, x, y)
    assert np.isfinite(nngp).all()
    for at in (0, 13, 19):
        large = x.copy()
        large[at] = 3e4
        with pytest.raises(NotFiniteError, match=r"as large as 3.0e\+04"):
            engine_of("cpu").kernels(program, large, large if n2 is None else np.full((n2, 3), 3e4, np.float32))


def test_a_copy_of_a_program_in_another_process_hashes_as_programs_there_do():
    net = Sequential(Conv(1, 3), Relu(), AvgPool(2), Conv(1, 3), Relu(), Flatten(), Dense(1))
    program = net.lowered(np.ones((1, 8, 8, 3)))[1]
    for kept in (program, plan(program, staged=True)):
        stored = pickle.dumps(kept)
        assert str(hash(kept)).encode() not in stored
        assert b"_hash" not in stored
        copy = pickle.loads(stored)
        assert copy == kept
        assert hash(copy) == hash(kept)
