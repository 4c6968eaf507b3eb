"""What the benchmarks are made of: jobs that travel to other interpreters, tables, fitted exponents."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest


@pytest.mark.slow
def test_a_job_runs_in_a_process_of_its_own():
    cases, peers = (importlib.import_module(f"benchmarks.{name}") for name in ("cases", "peers"))
    worker = importlib.import_module("benchmarks.worker")
    jobs = [cases.Job(2, 4, "pool", 2, 3, "float64"), cases.Job(2, 0, "flatten", 3, 3, "float64", True, 5)]
    found = peers.measure("cpu", jobs, sys.executable, seconds=0.0)
    for job, measured in zip(jobs, found, strict=True):
        nngp, ntk = worker.ours(job.as_dict(), "reference")(*worker.inputs(job.as_dict()))
        np.testing.assert_allclose(measured.nngp, nngp, rtol=1e-12)
        np.testing.assert_allclose(measured.ntk, ntk, rtol=1e-12)
        assert measured.seconds > 0
        assert measured.processor_seconds > 0


def test_work_of_jobs_is_what_kernel_costs_count():
    import equitangents as et

    cases = importlib.import_module("benchmarks.cases")
    conv, dense = (et.nn.Conv(1, 3), et.nn.Relu()), (et.nn.Dense(1), et.nn.Relu())
    nets = {
        "pool": et.nn.Sequential(*conv * 3, et.nn.GlobalAvgPool(), et.nn.Dense(1)),
        "flatten": et.nn.Sequential(*conv * 3, et.nn.Flatten(), et.nn.Dense(1)),
    }
    job = cases.Job(3, 8, "pool", 4, 6)
    for readout, net in nets.items():
        counted = net.kernel_cost((8, 8, 3), 4, 6)
        this = replace(job, readout=readout)
        assert counted.element_layers == this.pairs * this.element_layers
    vectors = et.nn.Sequential(*dense * 3, et.nn.Dense(1)).kernel_cost((20,), 5)
    this = cases.Job(3, 0, "pool", 5, 5, symmetric=True, channels=20)
    assert vectors.element_layers == this.pairs * this.element_layers


def test_tables():
    bench = importlib.import_module("benchmarks.bench_neural_tangents")
    values = {name: None for name in bench.Row.__dataclass_fields__}
    row = bench.Row(**{**values, "name": "GAP", "ours32": 5000.0, "ours64": 9.0, "reference32": 1.0, "error32": 1e-7,
                       "megabytes": 3.0, "peer32": 20.0, "peer64": 40.0, "over_peer_target": 45.0})  # fmt: skip
    head, rule, line = bench.table([row]).splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    assert "| 5,000 | 9 | 1 | 20 | 40 | 125× (45×) |" in line
