"""Tables of audits: right on a few models of each kind, and they see first lines and verdicts that are made wrong."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from equitangents.audit.report import numbers


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_audit_first_line")


@pytest.mark.slow
def test_first_lines_of_thirty_models_are_right(bench):
    rows = bench.measure(30, {name: kind for name, kind in bench.KINDS.items() if name != "potential"})
    assert [row.models for row in rows] == [3] * 10
    assert len(bench.KINDS) == 11
    assert [row.kind for row in rows if row.alarms or row.misses] == []
    assert sum(row.of("open") for row in rows if row.kind != "noisy") <= 3
    assert bench.MODELS == 600
    assert "false alarms: 0 of " in bench.table(rows)
    assert "misses: 0 of " in bench.table(rows)


@pytest.mark.slow
def test_first_lines_of_potentials_are_right(bench):
    (row,) = bench.measure(6, {"potential": bench.KINDS["potential"]})
    assert (row.models, row.alarms, row.misses) == (6, 0, 0)
    assert row.of("holds") > 0 < row.of("fails")


def test_the_table_sees_first_lines_that_are_wrong(bench, monkeypatch):
    few = {name: bench.KINDS[name] for name in ("exact", "rare")}
    for always, alarms, misses in (
        (("broken", "single input"), [1, 0], [0, 0]),
        (("equivariant", "at noise floor"), [0, 0], [0, 1]),
    ):
        monkeypatch.setattr("equitangents.audit.run.decide", lambda *args, said=always: said)
        rows = bench.measure(2, few)
        assert ([row.alarms for row in rows], [row.misses for row in rows]) == (alarms, misses)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("equivariant: error 0 of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "holds"),
        ("equivariant within tolerance: error 0.3 % of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "holds"),
        ("broken (single input): error 0.6 % of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "fails"),
        ("undecided (noise): error 3 % of ‖f(x)‖, noise floor 2 %, C4", "open"),
        ("holds (at noise floor): rotation of forces 10⁻¹² meV/Å, noise floor 10⁻¹¹", "holds"),
        ("within tolerance (below the tolerance): rotation of forces 0.1 meV/Å, 0 of 8 tests fail", "holds"),
        ("fails (above the tolerance): rotation of forces 12 meV/Å, noise floor 10⁻¹¹, 1 of 8 tests fail", "fails"),
    ],
)
def test_first_lines_are_read_by_their_beginning(bench, line, answer):
    assert bench.read(line) == answer


@pytest.fixture
def verdicts():
    return importlib.import_module("benchmarks.bench_audit_verdicts")


def chosen(verdicts, *names):
    return tuple(case for case in verdicts.CASES if case.name in names)


@pytest.mark.slow
def test_verdicts_of_models_with_known_violation_are_right(verdicts):
    rows = verdicts.measure(models=1)
    assert sum(row.models for row in rows) == len(verdicts.CASES) == 20
    assert [row.case.name for row in rows if row.false_alarms] == []
    assert [row.case.name for row in rows if row.misses] == []
    assert verdicts.MODELS * len(verdicts.CASES) == 300
    text = verdicts.table(rows)
    assert "false alarms: 0 of 10" in text
    assert "misses: 0 of 9" in text


def test_the_table_sees_wrong_verdicts(verdicts, monkeypatch):
    rows = verdicts.measure(chosen(verdicts, "the same, off by 30 %, tolerance 5 %"), models=2, relative_to="norm")
    assert rows[0].misses == 2, "a constant hides it"
    assert "misses: 2 of 2" in verdicts.table(rows)
    with monkeypatch.context() as patch:
        patch.setattr(numbers, "FACTOR", 0.0)  # no floor
        rows = verdicts.measure(chosen(verdicts, "invariant, float32", "resampled C8, invariant"), models=1)
    assert [row.false_alarms for row in rows] == [1, 1]
    monkeypatch.setattr("equitangents.audit.run.decide", lambda *args: ("equivariant", "at noise floor"))
    rows = verdicts.measure(chosen(verdicts, "off by 1 %", "5 % of class numbers change"), models=1)
    assert [row.misses for row in rows] == [1, 1]


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
