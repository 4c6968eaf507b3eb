"""The table of kinds: none of one model each is judged wrongly, and violations are of the size that is said."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_audit_kinds")


@pytest.mark.slow
def test_verdicts_of_every_kind_are_right(bench):
    rows = bench.rows_of(models=1, resamples=100)
    assert len(rows) == 52
    assert [row.case.name for row in rows if row.false_alarms or row.misses] == []


def test_planted_violations_are_of_the_size_that_is_said(bench):
    kind = next(k for k in bench._kinds() if k.name == "boxes, xyxy")
    f, x = bench.plant(kind, 0.01)(np.random.default_rng(3))
    spread = np.sqrt(f(x).var(axis=0, ddof=1).sum())
    off = np.linalg.norm(f(kind.move(x)) - kind.act(f(x)), axis=1).mean()
    assert off / spread == pytest.approx(0.01, rel=0.15)
    exact, _ = bench.plant(kind, 0.0)(np.random.default_rng(3))
    assert exact(kind.move(x)) == pytest.approx(kind.act(exact(x)), abs=1e-12)


def test_the_table_sees_verdicts_that_are_always_equivariant_as_misses(bench, monkeypatch):
    monkeypatch.setattr("equitangents.audit.data_pass.decide", lambda *args: "equivariant")
    chosen = tuple(case for case in bench.cases() if case.name == "sets of boxes, one too many in 20 %")
    assert [row.misses for row in bench.rows_of(chosen, models=1, resamples=20)] == [1]
