"""The tables of changes, rules and potentials: planted faults have the size that is said, and misses are counted."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


@pytest.fixture
def bench():
    return lambda name: importlib.import_module(f"benchmarks.bench_audit_{name}")


@pytest.mark.slow
def test_verdicts_of_every_change_rule_and_fault_are_right(bench):
    changes, rules, atoms = bench("changes"), bench("rules"), bench("atoms")
    rows = changes.rows_of(models=1, resamples=100)
    assert len(rows) == 18
    assert [row.case.name for row in rows if row.false_alarms or row.misses] == []
    assert [one.name for one in rules.lines(models=1, without=3) if one.wrong] == []
    assert [one.name for one in atoms.lines(models=1, exact=2) if one.wrong] == []


def test_changes_are_off_by_what_is_said(bench):
    changes = bench("changes")
    change = next(c for c in changes._changes() if c.name == "windows of recordings")
    f, x = changes.changed(change, 0.01)(np.random.default_rng(0))
    window = lambda k: x[:, k : k + 16]
    off = np.mean([np.linalg.norm(f(window(k)) - f(window(0)), axis=1).mean() for k in (1, 3)])
    spread = np.sqrt(f(window(0)).var(axis=0, ddof=1).sum())
    assert off / spread == pytest.approx(0.01, rel=0.2)
    assert change.still(window(3)) == pytest.approx(change.still(window(0)), abs=1e-12)


def test_the_potentials_without_a_fault_have_forces_that_are_gradients_in_cells_too(bench):
    atoms, rng = bench("atoms"), np.random.default_rng(0)
    one = atoms.crystals(rng, 1)[0]
    one.calc = atoms.Pairs(rng, atoms._sound)
    forces = one.get_forces()
    moved = one.copy()
    moved.calc = one.calc
    ends = []
    for h in (1e-4, -1e-4):
        moved.positions[1, 2] = one.positions[1, 2] + h
        ends.append(moved.get_potential_energy())
    assert forces[1, 2] == pytest.approx(-(ends[0] - ends[1]) / 2e-4, rel=1e-6)
    assert np.abs(forces).max() > 0.01


def test_misses_and_false_alarms_are_counted_apart(bench):
    rules, atoms = bench("rules"), bench("atoms")
    found = rules.table([rules.Line("none", False, 1, 50), rules.Line("planted", True, 18, 20)])
    assert "false alarms: 1 of 50" in found
    assert "missed or misnamed: 2 of 20" in found
    found = atoms.table([atoms.Line("none", "rotation", False, 1, 2, 40), atoms.Line("bent", "x", True, 8, 1, 10)])
    assert "false alarms: 1 of 40" in found
    assert "missed: 1 of 10" in found
