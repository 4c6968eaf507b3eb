"""The table of first lines: on a few models of each kind, and it sees sentences that are made wrong."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_audit_first_line")


def test_first_lines_of_thirty_models_are_right(bench):
    rows = bench.measure(30, {name: kind for name, kind in bench.KINDS.items() if name != "potential"})
    assert [row.models for row in rows] == [3] * 10
    assert len(bench.KINDS) == 11
    assert [row.kind for row in rows if row.alarms or row.misses] == []
    assert sum(row.of("open") for row in rows) <= 3
    assert bench.MODELS == 600
    assert "false alarms: 0 of " in bench.table(rows)
    assert "misses: 0 of " in bench.table(rows)


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
        ("net is invariant under C4 to rounding: mean relative error 0", "holds"),
        ("net is equivariant under C4 to within 1 %: …; but input 3 with 90° is off by 5 %", "holds"),
        ("net is not exactly invariant under C4, but to within 0.6 %: …", "fails"),
        ("net is not equivariant under C4: … Equivariant exactly if the classes are permuted 0→1", "fails"),
        ("net is stochastic, which hides whether it is invariant under C4: …", "stochastic"),
        ("pairs passes all 8 tests on 3 structures of 6 atoms: every error is at the floor.", "holds"),
        ("pairs fails 1 of 8 tests on 3 structures of 6 atoms: forces change under rotation by …", "fails"),
        ("pairs fails none of 8 tests on 3 structures of 6 atoms, but rotation of forces cannot be decided", "open"),
        ("Whether net is invariant under C4 cannot be told from these inputs: …", "open"),
    ],
)
def test_first_lines_are_read_by_their_beginning(bench, line, answer):
    assert bench.read(line) == answer
