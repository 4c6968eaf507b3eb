"""Nested cross-validation does not find tune worse than a search over refits, at a tenth of the kernels or less.

What each costs in time is for the benchmark to say: it is measured, and busy machines stretch it.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from equitangents import nn


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_choosing")


@pytest.mark.slow
@pytest.mark.parametrize("case", range(4), ids=["regression", "likelihood", "digits", "groups"])
def test_tune_is_not_worse_than_a_search_over_refits(case, bench):
    _, model, grid, x, y, how = list(bench.cases(200))[case]
    found = bench.compare(model, grid, x, y, 3, **how)
    mean, low, _ = found.difference
    assert not low > 0, f"tune errs more by {mean:.3g}"
    assert np.mean(found.tuned) < 1  # the targets' variance, or every label wrong


@pytest.mark.parametrize("case", range(4), ids=["regression", "likelihood", "digits", "groups"])
def test_tune_computes_at_most_a_tenth_of_the_kernels_of_a_search_over_refits(case, bench, monkeypatch):
    counted, kernel = [], nn.Sequential.kernel
    monkeypatch.setattr(nn.Sequential, "kernel", lambda net, *a, **k: counted.append(net) or kernel(net, *a, **k))
    _, model, grid, x, y, how = list(bench.cases(30))[case]
    grid = {**grid, "depth": [1], "W_std": [1.4]}
    model.tune(grid, x, y, **how)
    tuned = len(counted)
    bench.search(model, grid, x, y)
    assert 0 < tuned <= (len(counted) - tuned) / 10


def test_a_choice_that_is_worse_and_one_that_is_dear_are_seen(bench):
    rng = np.random.default_rng(0)
    errors = rng.uniform(size=60)
    worse = bench.Compared(errors + 0.1 + 0.01 * rng.normal(size=60), errors, 1.0, 4.0)
    assert worse.difference[1] > 0
    assert worse.ratio == 0.25
    assert bench.Compared(errors, errors, 1.0, 4.0).difference == (0.0, 0.0, 0.0)
