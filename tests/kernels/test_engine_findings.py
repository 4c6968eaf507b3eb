"""An engine that is untried here is tested at its first use, and one that fails gives way to the reference engine."""

import re

import jax
import jax.ffi
import numpy as np
import pytest

from equitangents.cli.doctor import doctor
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import engines
from equitangents.kernels.engines import select
from equitangents.kernels.operations import Affine
from equitangents.kernels.program import Positions, Program
from equitangents.nn import Conv, Dense, GlobalAvgPool, Relu, Sequential
from kernels import planted_engines as planted

NET = Sequential(Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
X = np.random.default_rng(0).standard_normal((2, 3, 3, 5))
FAULTS = {
    planted.Wrong: r"its NTK between inputs differs from the reference engine's by 1\.0e-04, relative \(float32\)",
    planted.WithNaN: r"its NTK between inputs differs from the reference engine's by nan, relative",
    planted.Short: r"its NTK between inputs has the shape \(3, 1\) in place of \(3, 2\)",
    planted.Uncompilable: "RuntimeError: NVRTC failed to compile the kernel",
}


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """A device for which the planted engine is the fastest."""
    monkeypatch.delenv("EQUITANGENTS_ENGINE", raising=False)
    monkeypatch.setattr(jax, "default_backend", lambda: "planted")
    monkeypatch.setattr(select, "_logged", set())


@pytest.fixture
def plant():
    """Register engines; they are forgotten afterwards."""
    kept = []

    def register(kind):
        engine = kind()
        engines.register(engine)
        kept.append(engine)
        return engine

    yield register
    for engine in kept:
        engines.unregister(engine)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A dense layer in place of a network, which the reference engine would have to compile."""
    monkeypatch.setattr(select, "_small_program", lambda: Program(Positions(()), (Affine(1.5, 0.01),)))


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_faulty_engine_gives_way_to_the_reference_engine_with_a_warning(kind, plant):
    plant(kind)
    with pytest.warns(UserWarning, match=FAULTS[kind]) as warned:
        choice = select.choose(NET.lowered(X)[1])
    assert choice.engine.name == "reference"
    assert re.search(FAULTS[kind], choice.notes[0])
    assert "please report it" in str(warned[0].message)
    assert select.choose(NET.lowered(X)[1]).engine.name == "reference"  # without a second warning
    with pytest.raises(InvalidArgumentError, match=FAULTS[kind]):
        select.choose(NET.lowered(X)[1], "planted")
    assert re.search(FAULTS[kind], select.engine_description())


@pytest.mark.slow
def test_an_engine_that_passes_is_used_and_tested_once_a_process_in_compiled_programs_too(plant, monkeypatch):
    engine = plant(planted.Right)
    chosen = []

    def inside(x):
        chosen.append(select.choose(NET.lowered(X)[1]).engine)
        return x

    jax.jit(inside)(1.0)
    assert chosen == [engine]
    monkeypatch.setattr(select, "_tried", lambda *_: pytest.fail("tested again"))
    assert select.fault(engine) is None
    assert select.fault(engines.REFERENCE) is None


def test_an_engine_that_runs_nothing_of_the_test_is_not_taken_as_right(plant, monkeypatch):
    monkeypatch.setattr(planted.Right, "obstacle", lambda self, program, dtype: "no")
    assert select.fault(plant(planted.Right)) == "it can run none of the networks that it is tested on"


def test_doctor_prints_what_was_found(plant, monkeypatch, capsys):
    monkeypatch.setattr("equitangents.cli.doctor.CHECKS", ())
    wrong = plant(planted.Wrong)
    with pytest.warns(UserWarning, match="kernels are computed by the reference engine"):
        doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "test of planted failed: its NTK between inputs differs" in said
    assert "kernel engine reference (the test of the planted engine" in said
    monkeypatch.setattr(planted.Wrong, "spoilt", planted.Right.spoilt)
    engines.unregister(wrong)
    engines.register(wrong)
    doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "test of planted passed" in said
    assert "kernel engine planted (a planted engine" in said


def test_doctor_says_what_it_knows_where_the_engine_that_is_asked_for_failed(plant, monkeypatch, capsys):
    monkeypatch.setattr("equitangents.cli.doctor.CHECKS", (lambda: pytest.fail("by which engine?"),))
    monkeypatch.setenv("EQUITANGENTS_ENGINE", "planted")
    plant(planted.Wrong)
    with pytest.raises(
        InvalidArgumentError, match="EQUITANGENTS_ENGINE is 'planted', whose test on this machine failed"
    ):
        doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "devices cpu:0" in said
    assert "test of planted failed: its NTK between inputs differs" in said
    assert "kernel engine none: EQUITANGENTS_ENGINE is 'planted'" in said


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_on_accelerators_the_reference_engine_runs(platform, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert select.engine_name() == "reference"
    found = Sequential(Dense(1), Dense(1)).kernel(X[:, 0, 0])
    assert found.engine == "reference"
    assert f"reference engine in place of cpu: JAX runs on {platform}" in found.notes
