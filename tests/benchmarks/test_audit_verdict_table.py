"""The table of false alarms and misses: none on a few models of each kind, and it sees verdicts that are made wrong."""

from __future__ import annotations

import importlib

import pytest

from equitangents.audit.report import numbers


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_audit_verdicts")


def chosen(bench, *names):
    return tuple(case for case in bench.CASES if case.name in names)


@pytest.mark.slow
def test_verdicts_of_models_with_known_violation_are_right(bench):
    rows = bench.measure(models=1)
    assert sum(row.models for row in rows) == len(bench.CASES) == 20
    assert [row.case.name for row in rows if row.false_alarms] == []
    assert [row.case.name for row in rows if row.misses] == []
    assert bench.MODELS * len(bench.CASES) == 300
    text = bench.table(rows)
    assert "false alarms: 0 of 10" in text
    assert "misses: 0 of 9" in text


def test_the_table_sees_verdicts_by_norm_alone_miss_what_a_constant_hides(bench):
    rows = bench.measure(chosen(bench, "the same, off by 30 %, tolerance 5 %"), models=2, relative_to="norm")
    assert rows[0].misses == 2
    assert "misses: 2 of 2" in bench.table(rows)


def test_the_table_sees_verdicts_that_ignore_floors_as_false_alarms(bench, monkeypatch):
    monkeypatch.setattr(numbers, "FACTOR", 0.0)
    rows = bench.measure(chosen(bench, "invariant, float32", "resampled C8, invariant"), models=1)
    assert [row.false_alarms for row in rows] == [1, 1]


def test_the_table_sees_verdicts_that_are_always_equivariant_as_misses(bench, monkeypatch):
    monkeypatch.setattr("equitangents.audit.data_pass.decide", lambda *args: "equivariant")
    rows = bench.measure(chosen(bench, "off by 1 %", "5 % of class numbers change"), models=1)
    assert [row.misses for row in rows] == [1, 1]
