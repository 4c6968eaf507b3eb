"""The table of coverage: what is promised holds in it, and it sees intervals that are too short."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from equitangents import statistics


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_coverage")


def test_intervals_hold_what_is_promised(bench):
    for population in bench.POPULATIONS:
        if not population.beyond:
            assert bench.of_mean(population, 10, trials=300) >= 0.95 - 2.5 * np.sqrt(0.05 * 0.95 / 300), population.name


def test_the_table_sees_intervals_that_are_too_short(bench, monkeypatch):
    def halved(samples, **_):
        mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
        return mean, mean - error, mean + error

    monkeypatch.setattr(statistics, "bootstrap_intervals", halved)
    assert bench.of_mean(bench.POPULATIONS[0], 10, trials=300) < 0.8


def test_every_line_has_a_number_for_every_size(bench):
    lines = list(bench.table("95 % interval, mean of", [("ones", lambda n: 1 - 1 / n)]))
    assert lines == [
        "| 95 % interval, mean of | 5 samples | 10 samples | 50 samples |",
        "|---|---|---|---|",
        "| ones | 80.0 % | 90.0 % | 98.0 % |",
    ]
    assert len(bench.others()) == 15
