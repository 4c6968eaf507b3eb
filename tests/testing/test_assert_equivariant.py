"""`assert_equivariant` passes what is equivariant, and says where and how anything else fails."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.testing import assert_equivariant, plugin

X = np.random.default_rng(0).normal(size=(20, 4, 4, 1))


def corner(x: np.ndarray) -> np.ndarray:
    return np.asarray(x)[:, 0, 0]


def test_what_is_equivariant_passes_and_gives_its_report() -> None:
    assert assert_equivariant(lambda x: np.asarray(x).sum((1, 2)), "C4", X).verdict == "equivariant"
    assert assert_equivariant(lambda x: 2 * x, "C4", X, "images").verdict == "equivariant"
    assert et.testing.assert_equivariant is assert_equivariant


def test_a_failure_names_element_and_output() -> None:
    with pytest.raises(AssertionError) as failure:
        assert_equivariant(lambda x: {"a": corner(x), "b": x.sum((1, 2))}, "C4", X)
    said = str(failure.value)
    assert said.startswith("broken (above noise floor): ")
    (line,) = (line for line in said.splitlines() if line.startswith("fails under"))
    assert line.split() == ["fails", "under", "a", "90°,", "180°,", "270°", "3", "of", "3", "elements"]


def test_a_failure_names_the_layer() -> None:
    net = et.nn.Sequential(et.nn.GlobalAvgPool(), et.nn.Dense(2))
    flat = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(2))
    assert_equivariant((net, net.init(jax.random.key(0), (4, 4, 1))), "C4", X)
    with pytest.raises(AssertionError, match="starts in"):
        assert_equivariant((flat, flat.init(jax.random.key(0), (4, 4, 1))), "C4", X)


def test_a_tolerance_is_what_is_asserted() -> None:
    nearly = lambda x: 1 + x.sum((1, 2)) + 1e-3 * corner(x)
    assert assert_equivariant(nearly, "C4", X, tolerance=0.05).verdict == "equivariant within tolerance"
    with pytest.raises(AssertionError, match=r"tolerance +0\.01 %"):
        assert_equivariant(nearly, "C4", X, tolerance=1e-4)


def test_what_cannot_be_told_does_not_pass() -> None:
    noise = np.random.default_rng(1)
    with pytest.raises(AssertionError):
        assert_equivariant(lambda x: x.sum((1, 2)) + noise.normal(size=(len(x), 1)), "C4", X)


def test_the_plugins_fixture_has_a_tolerance_of_its_own() -> None:
    request = SimpleNamespace(config=SimpleNamespace(getoption=lambda name: 0.05))
    checked = plugin.assert_equivariant.__wrapped__(request)
    checked(lambda x: 1 + x.sum((1, 2)) + 1e-3 * corner(x), "C4", X)
    with pytest.raises(AssertionError):
        checked(lambda x: 1 + x.sum((1, 2)) + 1e-3 * corner(x), "C4", X, tolerance=1e-5)


def test_the_plugin_is_where_pytest_looks_for_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert importlib.import_module(project["entry-points"]["pytest11"]["equitangents"]) is plugin
    assert plugin.pytest_addoption
