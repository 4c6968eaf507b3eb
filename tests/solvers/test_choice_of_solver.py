"""Memory is planned before it is taken, and "auto" picks an exact solver that fits, and says why."""

from __future__ import annotations

import numpy as np
import pytest
from problems import Gaussian, positive, targets

from equitangents import nn, solvers
from equitangents.errors import MemoryLimitError
from equitangents.scale import GramStore
from equitangents.solvers import solving
from equitangents.solvers.method import SolveTask
from equitangents.solvers.solving import choose


def task(n, limit, tile=1024):
    return SolveTask(n, 10, 4, False, False, tile, int(limit))


@pytest.mark.parametrize(
    ("n", "limit", "time", "ridge", "stored", "expected"),
    [
        (2_000, 12e9, np.inf, 0.0, False, "eigh"),
        (2_000, 12e9, 5.0, 0.0, False, "eigh"),
        (20_000, 12e9, np.inf, 0.0, False, "cholesky"),
        (20_000, 12e9, 5.0, 0.0, False, "lanczos"),
        (50_000, 16e9, np.inf, 1e-3, False, "cholesky"),
        (100_000, 12e9, np.inf, 0.0, True, "out-of-core"),
        (100_000, 12e9, np.inf, 1e-3, True, "pcg"),
        (100_000, 12e9, np.inf, 0.0, False, "pcg"),
    ],
)
def test_auto_picks_by_size_memory_time_and_ridge(n, limit, time, ridge, stored, expected):
    method, reason = choose(task(n, limit), time, ridge, stored)
    assert method.name == expected
    assert method.memory(task(n, limit)) <= limit
    assert reason.startswith("auto: ")
    assert method.exact


def test_a_float32_factor_of_50_000_rows_takes_less_than_16_gb():
    method, _ = choose(task(50_000, 16e9), np.inf, 1e-3, False)
    assert 10e9 < method.memory(task(50_000, 16e9)) < 16e9
    assert method.precision_for(task(50_000, 16e9)) == "float32"


@pytest.mark.parametrize("solver", ["auto", *solving.METHODS])
def test_what_does_not_fit_is_refused(solver):
    with pytest.raises(MemoryLimitError, match=r"expected at most 2 kB; .*raise memory_limit"):
        solvers.solve((Gaussian(), targets(200, 2)), targets(200, 1), solver=solver, memory_limit=2000)


def test_auto_says_why_in_the_report(tmp_path):
    x, y = targets(60, 3), targets(60, 1)
    net = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    store = GramStore(tmp_path / "k", net, x, tile=16).compute()
    report = solvers.solve(store, y, ridge=1e-2).report
    assert (report.solver, report.reason) == ("eigh", "auto: one decomposition serves every time")
    report = solvers.solve(store, y, ridge=1e-2, memory_limit=80_000).report
    assert report.solver == "pcg"
    assert report.reason == "auto: no factor fits into memory"


@pytest.mark.slow
def test_the_forecast_of_memory_holds_the_peak():
    import tracemalloc

    n = 400
    matrix = positive(n, 100)
    for name in ("eigh", "cholesky", "lanczos", "pcg", "nystrom"):
        solvers.solve(matrix[:50, :50], targets(50, 2), ridge=1e-2, solver=name)
        tracemalloc.start()
        report = solvers.solve(matrix, targets(n, 2), ridge=1e-2, solver=name).report
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.1 * report.forecast_memory <= peak <= 1.25 * report.forecast_memory, name
