"""Only tiles under way are lost, and no number is wrong: kills, damage, disks, clocks, memory, two writers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from stores import NET, content, damage, store

import kills
from equitangents import InfiniteEnsemble, files
from equitangents.errors import MemoryLimitError, StoreError
from equitangents.files import locked
from equitangents.scale import GramStore, record
from equitangents.solvers import OutOfCore
from permissions import public_folder, without_permission

A_DAY = 86400.0


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def undisturbed(tmp_path):
    store(tmp_path / "whole").compute()
    return content(tmp_path / "whole")


def test_a_new_store_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "write_metadata", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_one_line_and_the_rest_is_kept(tmp_path, monkeypatch, undisturbed):
    part = store(tmp_path / "k").compute(shard=(0, 2))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
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
def test_a_complete_store_is_opened_checked_and_fitted_from_where_nothing_may_be_written(folder, undisturbed):
    x, y = np.random.default_rng(0).normal(size=(22, 3)), np.ones((22, 1))
    left = folder / "k" / "ntk" / "c" / "0" / f".0-{'0' * 32}"
    method = OutOfCore(path=folder / "factor", tile=8)

    def coefficients():
        model = InfiniteEnsemble(NET, store=folder / "k", solver=method, ridge=0.0).fit(x, y)
        return model.predict(x)

    store(folder / "k").compute()
    expected = coefficients()
    left.write_bytes(b"of a process that died")
    with without_permission(folder):
        whole = store(folder / "k").compute()
        assert whole.compute(check=True).missing == 0
        np.testing.assert_array_equal(coefficients(), expected)
    assert left.exists()
    whole.compute()  # sweeps
    assert content(folder / "k") == undisturbed


def test_clocks_ahead_by_a_day_sweep_nothing_that_is_being_written(tmp_path, monkeypatch, undisturbed):
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
    part.compute()
    store(tmp_path / "whole", 60, 2).compute()
    assert content(tmp_path / "k") == content(tmp_path / "whole")


class TestKills:
    @pytest.mark.slow
    @pytest.mark.parametrize(("rows", "tile", "number"), [(22, 4, 8), (126, 2, 100)])
    def test_leave_the_store_that_an_undisturbed_run_makes(self, tmp_path, rows, tile, number):
        assert kills.run("scale.killed", tmp_path / "killed", rows, tile, number) == number
        assert store(tmp_path / "killed", rows, tile).missing > 0
        store(tmp_path / "killed", rows, tile).compute()
        store(tmp_path / "whole", rows, tile).compute()
        assert content(tmp_path / "killed") == content(tmp_path / "whole")
        assert sorted(os.listdir(tmp_path)) == ["killed", "whole"]

    def test_leave_no_lock_behind(self, tmp_path):
        child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        first = store(tmp_path / "k", rows=9).compute()
        host = os.uname().nodename
        lock = first.path / "nngp" / ".growing"
        lock.write_text(f".{host}+{int(child.stdout)}+{'0' * 32}")
        assert store(tmp_path / "k", rows=11).shape == (11, 11)
        lock.write_text(f".{host}+{os.getpid()}+{'0' * 32}")  # a number that another process has by now
        assert store(tmp_path / "k", rows=12).shape == (12, 12)
        assert not lock.exists()
        with locked(lock, ""), pytest.raises(StoreError, match="another process"):
            store(tmp_path / "k", rows=13)


class TestDamage:
    @pytest.mark.parametrize("times", [5, pytest.param(200, marks=pytest.mark.slow)])
    def test_is_found_and_repaired(self, tmp_path, times):
        whole = store(tmp_path / "k", rows=10).compute()
        good = content(tmp_path / "k")
        rng = np.random.default_rng(0)
        for _ in range(times):
            what = damage(tmp_path / "k", rng)
            whole.compute(check=True)
            assert content(tmp_path / "k") == good, what

    @pytest.fixture
    def whole(self, tmp_path):
        return store(tmp_path / "k").compute()

    def test_that_nobody_looked_for_gives_no_number(self, tmp_path, whole):
        path = tmp_path / "k" / "ntk" / "c" / "0" / "1"
        path.write_bytes(b"\1" + path.read_bytes()[1:])
        with pytest.raises(StoreError, match=r"undamaged tiles; compute\(check=True\).*checksum"):
            whole.array[:]

    def test_of_inputs_stops_a_worker_and_is_repaired(self, tmp_path):
        fresh = store(tmp_path / "k")
        path = next(file for file in (tmp_path / "k" / "x1" / "c").rglob("*") if file.is_file())
        path.write_bytes(b"\1" + path.read_bytes()[1:])
        with pytest.raises(StoreError, match=r"expected undamaged inputs.*compute\(check=True\) repairs"):
            fresh.compute()
        np.testing.assert_allclose(fresh.compute(check=True).ntk[:], NET.kernel(fresh._data["x1"]).ntk, rtol=1e-12)

    def test_of_a_cut_off_tile_is_computed_again_when_resuming(self, tmp_path, whole, undisturbed):
        os.truncate(tmp_path / "k" / "nngp" / "c" / "1" / "1", 10)
        assert whole.missing == 1
        whole.compute()
        assert content(tmp_path / "k") == undisturbed

    def test_of_a_mirror_that_is_whole_itself_is_found(self, tmp_path, whole, undisturbed):
        chunks = whole._work.arrays["nngp"]
        chunks.write((2, 1), chunks.read((2, 1)) * (1 + 1e-6))
        whole.compute(check=True)
        assert content(tmp_path / "k") == undisturbed

    def test_of_every_record_is_said(self, tmp_path):
        store(tmp_path / "k")
        for path in (tmp_path / "k").rglob("zarr.json"):
            path.write_text(path.read_text().replace("float64", "float32"))
        with pytest.raises(StoreError, match="with an undamaged record"):
            store(tmp_path / "k")


def test_a_file_in_place_of_a_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be read or written: Not a directory .*file"):
        store(tmp_path / "file" / "k")


class TestTwoAtOnce:
    def test_share_one_store(self, tmp_path, undisturbed):
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(lambda: store(tmp_path / "k").compute()) for _ in range(2)]
        assert [run.result().missing for run in runs] == [0, 0]
        assert content(tmp_path / "k") == undisturbed

    def test_of_different_problems_do_not_mix(self, tmp_path):
        x = np.random.default_rng(1).normal(size=(2, 22, 3))
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(GramStore, tmp_path / "k", NET, x[i], tile=4) for i in range(2)]
        refused = [isinstance(run.exception(), StoreError) for run in runs]
        assert sorted(refused) == [False, True]
        winner = refused.index(False)
        kept = runs[winner].result().compute()
        np.testing.assert_allclose(kept.ntk[:], NET.kernel(x[winner]).ntk, rtol=1e-12)
