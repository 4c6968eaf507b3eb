"""An engine that is untried here is tested in a child process, and one that fails gives way to the reference engine."""

import json
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from equitangents.cli.doctor import doctor
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import engines
from equitangents.kernels.engines import findings, select, trial
from equitangents.kernels.operations import Affine
from equitangents.kernels.program import Positions, Program
from equitangents.nn import Conv, Dense, GlobalAvgPool, Relu, Sequential
from kernels import planted_engines as planted

NET = Sequential(Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
X = np.random.default_rng(0).standard_normal((2, 3, 3, 5))
FAULTS = {
    planted.Wrong: r"failed: its NTK between inputs differs from the reference engine’s by .*e-05|e-04, relative",
    planted.WithNaN: "failed: its NTK between inputs is not finite",
    planted.Uncompilable: r"failed: it does not compile or run: RuntimeError: NVRTC failed to compile the kernel",
    planted.Crashing: "failed: it crashed \\(SIGABRT\\)",
    planted.Mute: "failed: its test ended without a result",
    planted.Hidden: "could not be made: .*it is not available in a child process: the device is taken",
}


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    """A cache of one's own, and a device for which the planted engine is the fastest."""
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
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
        findings.forget(engine)


def in_this_process(monkeypatch, kind):
    """The child's work without the child, where the engine ends no process."""

    def run(command, **how):
        name = command[-1]
        try:
            found = trial.fault(getattr(planted, name)(), engines.REFERENCE)
        except RuntimeError as error:
            return subprocess.CompletedProcess(command, 1, "", f"Traceback\nRuntimeError: {error}\n")
        return subprocess.CompletedProcess(command, 0, findings.MARK + json.dumps(found), "")

    own = {
        planted.Crashing: lambda command, **how: subprocess.CompletedProcess(command, -6, "", ""),
        planted.Mute: lambda command, **how: subprocess.CompletedProcess(command, 0, "", ""),
    }
    if kind is planted.Hidden:
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        monkeypatch.setattr(kind, "why_unavailable", lambda self: None, raising=False)
        why = "it is not available in a child process: the device is taken"
        monkeypatch.setattr(trial, "fault", lambda *_: _raise(why))
    monkeypatch.setattr(findings.subprocess, "run", own.get(kind, run))


def _raise(message):
    raise RuntimeError(message)


@pytest.fixture(autouse=True)
def one_case(monkeypatch):
    """A dense layer in place of three networks, which the reference engine would have to compile."""
    monkeypatch.setattr(trial, "cases", lambda: {"a dense layer": Program(Positions(()), (Affine(1.5, 0.01),))})
    monkeypatch.setattr(trial, "ALLOWED", {"float64": 1e-10})


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_faulty_engine_gives_way_to_the_reference_engine_with_a_warning(kind, plant, monkeypatch):
    in_this_process(monkeypatch, kind)
    plant(kind)
    with pytest.warns(UserWarning, match=FAULTS[kind]) as warned:
        choice = select.choose(NET.lowered(X)[1])
    assert choice.engine.name == "reference"
    assert re.search(FAULTS[kind], choice.note)
    assert "please report it" in str(warned[0].message)
    assert select.choose(NET.lowered(X)[1]).engine.name == "reference"  # without a second warning
    with pytest.raises(InvalidArgumentError, match=FAULTS[kind]):
        select.choose(NET.lowered(X)[1], "planted")
    assert re.search(FAULTS[kind], select.engine_description())


def test_an_engine_that_passes_is_used_and_tested_once_a_device_and_version(plant, monkeypatch, tmp_path):
    in_this_process(monkeypatch, planted.Right)
    engine = plant(planted.Right)
    assert select.choose(NET.lowered(X)[1]).engine is engine
    assert findings.finding(engine) == findings.Finding(None)
    assert len(list((tmp_path / "engines").iterdir())) == 1
    monkeypatch.setattr(findings.subprocess, "run", lambda *_, **__: _raise("tested again"))
    findings.forget(engine)  # as in another process
    assert findings.finding(engine).kept
    for change in ({"description": lambda: "another device"}, {"content": lambda: "other code"}):
        findings.forget(engine)
        with monkeypatch.context() as changed:
            for name, value in change.items():
                changed.setattr(engine, name, value)
            with pytest.raises(RuntimeError, match="tested again"):
                findings.finding(engine)


def test_a_fault_is_kept_and_tested_anew_only_on_demand(plant, monkeypatch):
    in_this_process(monkeypatch, planted.Wrong)
    engine = plant(planted.Wrong)
    fault = findings.finding(engine).fault
    findings.forget(engine)
    assert findings.finding(engine) == findings.Finding(fault, kept=True)
    monkeypatch.setattr(planted.Wrong, "spoilt", planted.Right.spoilt)  # a new driver
    assert findings.finding(engine).fault == fault
    assert findings.finding(engine, again=True).fault is None


def test_a_test_that_could_not_be_made_is_not_kept(plant, monkeypatch, tmp_path):
    in_this_process(monkeypatch, planted.Hidden)
    assert not findings.finding(plant(planted.Hidden)).tested
    assert not (tmp_path / "engines").exists()


def test_a_damaged_file_is_tested_anew(plant, monkeypatch, tmp_path):
    in_this_process(monkeypatch, planted.Right)
    engine = plant(planted.Right)
    findings.finding(engine)
    (path,) = (tmp_path / "engines").iterdir()
    for text in ("", "[]", '{"fault": 3}', "{}"):
        path.write_text(text)
        findings.forget(engine)
        assert findings.finding(engine) == findings.Finding(None)


def test_the_children_are_told_which_engine_and_do_not_inherit_a_forced_one(plant, monkeypatch):
    seen = {}

    def run(command, env, **how):
        seen.update(command=command, env=env)
        return subprocess.CompletedProcess(command, 0, findings.MARK + "null", "")

    monkeypatch.setattr(findings.subprocess, "run", run)
    monkeypatch.setenv("EQUITANGENTS_ENGINE", "planted")
    engine = plant(planted.Right)
    assert select.engine_name() == "planted"
    assert seen["command"] == [
        sys.executable, "-m", "equitangents.kernels.engines.trial", "kernels.planted_engines", "Right",
    ]  # fmt: skip
    assert "EQUITANGENTS_ENGINE" not in seen["env"]
    assert seen["env"]["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert findings.finding(engine).fault is None


def test_doctor_prints_what_was_found_and_tests_anew_what_failed(plant, monkeypatch, capsys):
    monkeypatch.setattr("equitangents.cli.self_test.run_checks", list)
    in_this_process(monkeypatch, planted.Wrong)
    engine = plant(planted.Wrong)
    with pytest.warns(UserWarning, match="kernels are computed by the reference engine"):
        doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "test of planted failed: its NTK between inputs differs" in said
    assert "kernel engine reference (the test of the planted engine" in said
    monkeypatch.setattr(planted.Wrong, "spoilt", planted.Right.spoilt)
    doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "test of planted passed: its kernels are those of the reference engine" in said
    assert "kernel engine planted (a planted engine" in said
    assert findings.finding(engine).fault is None


def test_doctor_says_what_it_knows_where_the_engine_that_is_asked_for_failed(plant, monkeypatch, capsys):
    monkeypatch.setattr("equitangents.cli.self_test.run_checks", lambda: pytest.fail("by which engine?"))
    monkeypatch.setenv("EQUITANGENTS_ENGINE", "planted")
    in_this_process(monkeypatch, planted.Wrong)
    plant(planted.Wrong)
    with pytest.raises(
        InvalidArgumentError, match="EQUITANGENTS_ENGINE is 'planted', whose test on this machine failed"
    ):
        doctor()
    said = " ".join(capsys.readouterr().out.split())
    assert "devices cpu:0" in said
    assert "test of planted failed: its NTK between inputs differs" in said
    assert "kernel engine none: EQUITANGENTS_ENGINE is 'planted'" in said


def test_a_name_that_no_engine_has_is_refused_in_terms_of_what_gave_it(monkeypatch):
    names = "'cpu', 'reference'"
    with pytest.raises(InvalidArgumentError, match=f"^engine is 'gpu'; expected None or one of {names}$"):
        select.engine_name("gpu")
    monkeypatch.setenv("EQUITANGENTS_ENGINE", "gpu")
    with pytest.raises(
        InvalidArgumentError, match=f"^EQUITANGENTS_ENGINE is 'gpu'; expected nothing or one of {names}$"
    ):
        select.engine_name()


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_on_accelerators_the_reference_engine_runs(platform, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert select.engine_name() == "reference"
    found = NET.kernel(X)
    assert found.engine == "reference"
    assert f"reference engine in place of cpu: JAX runs on {platform}" in found.notes


def test_a_finding_that_cannot_be_kept_is_used_all_the_same(plant, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path / "file"))
    in_this_process(monkeypatch, planted.Wrong)
    engine = plant(planted.Wrong)
    assert findings.finding(engine).fault is not None
    assert not findings.finding(engine).kept


@pytest.mark.slow
@pytest.mark.parametrize("kind", [planted.Right, *FAULTS], ids=lambda kind: kind.__name__)
def test_what_a_child_process_finds(kind, plant):
    found = findings.finding(plant(kind))
    assert re.search(FAULTS.get(kind, "passed: its kernels are those of the reference engine"), str(found))


@pytest.mark.slow
def test_a_child_that_hangs_is_ended(plant, monkeypatch):
    monkeypatch.setattr(findings, "_SECONDS", 0.2)
    assert str(findings.finding(plant(planted.Right))) == (
        "failed: its test did not end within 0 s, as on a machine that is busy with other work"
    )


def test_a_trial_is_of_a_new_engine_of_the_class_against_the_reference_engine(monkeypatch, capsys):
    tried = []
    monkeypatch.setattr(trial, "fault", lambda *engines: tried.append([e.name for e in engines]) or "wrong: κ")
    trial.main("kernels.planted_engines", "Right")
    assert tried == [["planted", "reference"]]
    assert json.loads(capsys.readouterr().out.removeprefix(trial.MARK)) == "wrong: κ"
