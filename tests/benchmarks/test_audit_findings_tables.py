"""The table of potentials: planted faults have the size that is said, and misses are counted."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


@pytest.fixture
def atoms():
    return importlib.import_module("benchmarks.bench_audit_atoms")


@pytest.mark.slow
def test_verdicts_of_every_fault_are_right(atoms):
    assert [one.name for one in atoms.lines(models=1, exact=2) if one.wrong] == []


def test_the_potentials_without_a_fault_have_forces_that_are_gradients_in_cells_too(atoms):
    rng = np.random.default_rng(0)
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


def test_misses_and_false_alarms_are_counted_apart(atoms):
    found = atoms.table([atoms.Line("none", "rotation", False, 1, 2, 40), atoms.Line("bent", "x", True, 8, 1, 10)])
    assert "false alarms: 1 of 40" in found
    assert "missed: 1 of 10" in found
