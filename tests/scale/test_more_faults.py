"""Faults of the machines around a store: full disk, no permission, clocks that differ, memory, killed clients."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from stores import NET, content, store

from equitangents import InfiniteEnsemble, files
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.scale import opening
from equitangents.solvers import OutOfCore
from permissions import public_folder, without_permission

A_DAY = 86400.0


@pytest.fixture
def undisturbed(tmp_path):
    store(tmp_path / "whole").compute()
    return content(tmp_path / "whole")


def test_a_new_store_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(opening, "write_metadata", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_one_line_and_the_rest_is_kept(tmp_path, monkeypatch, undisturbed):
    part = store(tmp_path / "k").compute(shard=(0, 2))

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="cannot be read or written: No space left on device") as error:
            part.compute()
    assert "\n" not in str(error.value)
    assert part.missing == 10
    part.compute()
    assert content(tmp_path / "k") == undisturbed


@pytest.fixture
def folder():
    with public_folder() as made:
        yield made


@pytest.mark.slow
def test_a_complete_store_is_opened_verified_and_fitted_from_where_nothing_may_be_written(folder, undisturbed):
    x, y = np.random.default_rng(0).normal(size=(22, 3)), np.ones((22, 1))
    left = folder / "k" / "ntk" / ".partial" / f".0-{'0' * 32}"
    method = OutOfCore(path=folder / "factor", tile=8)

    def coefficients():
        model = InfiniteEnsemble(NET, store=folder / "k", solver=method, ridge=0.0).fit(x, y)
        return model.predict(x)

    store(folder / "k").compute()
    expected = coefficients()
    left.parent.mkdir()
    left.write_bytes(b"of a process that died")
    with without_permission(folder):
        whole = store(folder / "k").compute()
        assert (whole.missing, whole.verify(sample=2).ok) == (0, True)
        np.testing.assert_array_equal(coefficients(), expected)
    assert left.exists()
    whole.compute()  # sweeps
    assert content(folder / "k") == undisturbed


class TestClocks:
    """Another machine's clock decides nothing."""

    def test_ahead_by_a_day_sweep_nothing_that_is_being_written(self, tmp_path, monkeypatch, undisturbed):
        there, replace, now = [], os.replace, time.time

        def sweeping(source, target):
            with monkeypatch.context() as patch:
                patch.setattr(files.time, "time", lambda: now() + A_DAY)
                files.sweep(Path(source).parent)
            there.append(Path(source).exists())
            replace(source, target)

        part = store(tmp_path / "k")
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", sweeping)
            part.compute()
        assert len(there) > 20
        assert all(there)
        assert content(tmp_path / "k") == undisturbed


def test_a_tile_for_which_there_is_no_memory_is_named_with_what_helps(tmp_path, monkeypatch, undisturbed):
    part = store(tmp_path / "k").compute(shard=(0, 2))
    with monkeypatch.context() as patch:
        patch.setattr(type(NET), "kernel", lambda *arguments, **keywords: np.empty(2**50))
        with pytest.raises(MemoryLimitError, match="expected memory for it; give a smaller tile"):
            part.compute()
    part.compute()
    assert content(tmp_path / "k") == undisturbed


@pytest.mark.slow
def test_kill_9_of_a_client_with_workers_loses_nothing_that_was_complete(tmp_path):
    text = (
        "from stores import store\n"
        "say = lambda *now: print(now[0], flush=True)\n"
        f"store({str(tmp_path / 'k')!r}, 60, 2).compute(executor=2, progress=say)\n"
    )
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline()
        workers = psutil.Process(client.pid).children(recursive=True)
        client.kill()
    psutil.wait_procs(workers, timeout=60)
    part = store(tmp_path / "k", 60, 2)
    assert 0 < part.missing < len(part.tiles)
    assert part.verify(sample=4).ok
    part.compute()
    store(tmp_path / "whole", 60, 2).compute()
    assert content(tmp_path / "k") == content(tmp_path / "whole")
