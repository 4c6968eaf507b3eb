"""Whoever computes the tiles: the store is the same, to the last bit; workers that die are replaced or named."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from stores import content, store

from equitangents.errors import StoreError
from kills import Dying


@pytest.fixture
def alone(tmp_path):
    """What one process makes."""
    store(tmp_path / "alone").compute()
    return content(tmp_path / "alone")


def test_threads_make_the_same_store(tmp_path, alone):
    with ThreadPoolExecutor(2) as pool:
        store(tmp_path / "k").compute(pool)
    assert content(tmp_path / "k") == alone


@pytest.mark.slow
def test_processes_make_the_same_store_also_when_one_is_killed(tmp_path, alone):
    killed = []

    def kill(*now):
        alive = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
        workers = [p for p in alive if "popen_loky" in " ".join(p.cmdline())]
        if workers and not killed:
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

    store(tmp_path / "k").compute(executor=2, progress=kill)
    assert killed
    assert content(tmp_path / "k") == alone


def test_a_dead_worker_of_an_executor_is_an_error_and_the_rest_is_computed_later(tmp_path, alone):
    part = store(tmp_path / "k")
    with pytest.raises(StoreError, match="workers died"):
        part.compute(Dying(tasks=3))
    assert 0 < part.missing < len(part.tiles)
    part.compute()
    assert content(tmp_path / "k") == alone


def test_workers_that_only_die_are_given_up(tmp_path, monkeypatch):
    pools = []

    class Pool(Dying):
        def __init__(self, workers, env, **following):
            super().__init__(tasks=1 if len(pools) < 2 else 0)
            pools.append(env["OMP_NUM_THREADS"])

        def shutdown(self, wait, kill_workers):
            pass

    monkeypatch.setattr("joblib.externals.loky.ProcessPoolExecutor", Pool)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    part = store(tmp_path / "k")
    with pytest.raises(StoreError, match="workers died"):
        part.compute(executor=1)
    assert len(pools) == 2 + 3
    assert pools[0] == str(len(os.sched_getaffinity(0)))
    assert part.missing < len(part.tiles)
