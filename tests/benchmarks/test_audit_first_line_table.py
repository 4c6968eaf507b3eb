"""The table of first lines: on a few models of each kind, and it sees first lines that are made wrong."""

from __future__ import annotations

import importlib

import pytest


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
    for always, alarms, misses in (("broken", [1, 0], [0, 0]), ("equivariant", [0, 0], [0, 1])):
        monkeypatch.setattr("equitangents.audit.data_pass.decide", lambda *args, said=always: said)
        rows = bench.measure(2, few)
        assert ([row.alarms for row in rows], [row.misses for row in rows]) == (alarms, misses)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("equivariant: error 0 of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "holds"),
        ("equivariant within tolerance: error 0.3 % of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "holds"),
        ("broken (single input): error 0.6 % of ‖f(x)‖, noise floor 10⁻¹⁵, C4", "fails"),
        ("partial, broken (above noise floor): error 31 %, noise floor 10⁻¹⁵, C4", "fails"),
        ("undecided (noise): error 3 % of ‖f(x)‖, noise floor 2 %, C4", "open"),
        (
            "holds (at noise floor): rotation of forces 10⁻¹² meV/Å, noise floor 10⁻¹¹, 0 of 8 tests fail, pairs",
            "holds",
        ),
        (
            "within tolerance (below the tolerance): rotation of forces 0.1 meV/Å, 0 of 8 tests fail",
            "holds",
        ),
        (
            "fails (above the tolerance): rotation of forces 12 meV/Å, noise floor 10⁻¹¹, 1 of 8 tests fail, pairs",
            "fails",
        ),
    ],
)
def test_first_lines_are_read_by_their_beginning(bench, line, answer):
    assert bench.read(line) == answer
