"""`equitangents doctor`: its checks pass here, and notice an installation that computes wrong numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError

import jax
import numpy as np
import pytest

from equitangents import kernels, nn
from equitangents.cli import doctor, self_test
from equitangents.kernels.result import Kernels


@pytest.fixture
def run_doctor(command):
    return partial(command, "doctor")


@pytest.mark.slow
def test_this_installation_is_well(run_doctor) -> None:
    status, out, err = run_doctor()
    assert (status, err) == (0, "")
    assert jax.__version__ in out
    assert kernels.engines.engine_name() in out
    assert out.count(" ok ") == len(self_test.CHECKS)
    assert "WRONG" not in out


def test_wrong_numbers_are_reported(run_doctor, monkeypatch) -> None:
    def kernel(net, x1, x2=None, engine=None) -> Kernels:
        ones = np.ones((len(x1), len(x1)))
        return Kernels(nngp=ones, ntk=ones, engine="broken", form="fibre", notes=())

    monkeypatch.setattr("equitangents.nn.Sequential.kernel", kernel)
    monkeypatch.setattr(self_test, "CHECKS", self_test.CHECKS[:1])
    status, out, err = run_doctor()
    assert status == 1
    assert "WRONG" in out
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [1e-9, float("nan")])
def test_json_says_whether_all_is_well(run_doctor, monkeypatch, tmp_path, error) -> None:
    monkeypatch.setattr(self_test, "CHECKS", [lambda: self_test.Check("one", error, 1e-6)])
    status, *_ = run_doctor("--json", str(tmp_path / "d.json"))
    told = json.loads((tmp_path / "d.json").read_text("utf-8"), parse_constant=pytest.fail)  # NaN is no JSON
    assert (status, told["well"]) == ((0, True) if error == 1e-9 else (1, False))
    assert told["installation"]["jax"] == jax.__version__
    assert [(each["name"], each["passed"]) for each in told["checks"]] == [("one", told["well"])]


@pytest.mark.parametrize("error", [float("nan"), float("inf"), 2e-3])
def test_a_check_passes_only_on_a_small_number(error: float) -> None:
    assert self_test.Check("name", 1e-3, 1e-3).passed
    assert not self_test.Check("name", error, 1e-3).passed


@pytest.mark.parametrize(
    ("check", "planted"),
    [
        (0, "nngp"),
        (0, "ntk"),
        pytest.param(2, "ntk", marks=pytest.mark.slow),
    ],
)
def test_a_planted_nan_makes_doctor_fail(check, planted, run_doctor, monkeypatch) -> None:
    """In either kernel, in every check that compares it; that of compiled programs compares the NTK alone."""
    run = nn.Sequential.kernel

    def kernel(net, x1, x2=None, engine=None) -> Kernels:
        return replace(run(net, x1, x2, engine), **{planted: np.full((len(x1), len(x1)), np.nan)})

    monkeypatch.setattr(nn.Sequential, "kernel", kernel)
    monkeypatch.setattr(self_test, "CHECKS", self_test.CHECKS[check : check + 1])
    status, out, err = run_doctor()
    assert status == 1
    assert "WRONG" in out
    assert err.count("\n") == 1


def test_packages_of_extras_need_not_be_installed(run_doctor, monkeypatch) -> None:
    """Without their metadata, too, which stays where only imports are blocked."""
    there = doctor.version

    def version(package: str) -> str:
        if package in doctor.OPTIONAL:
            raise PackageNotFoundError(package)
        return there(package)

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(self_test, "CHECKS", self_test.CHECKS[:1])
    status, out, err = run_doctor()
    assert (status, err) == (0, "")
    assert "not installed (extra scale)" in out
